/* cli/views/remedy_view.h - changes with which a layout that needs too much memory would fit. */
#ifndef CLI_VIEWS_REMEDY_VIEW_H
#define CLI_VIEWS_REMEDY_VIEW_H

#include "base/text.h"
#include "cli/input/setup.h"

/* The largest peak that a search with the default --oom-risk accepts; never more than the setup's
 * limit. */
double remedy_usual_bytes(const struct setup *setup);

/* Adds the changes of `plan` whose peak is at most `most_bytes`, separated by `dot`: "cp2 dp64:
 * 6.10 s, 57.8 GiB - recompute=selective:mlp: 7.60 s, 47.4 GiB". Adds nothing if there are none. */
void add_remedies_words(const struct setup *setup, const struct plan *plan, double most_bytes,
                        const char *dot, struct text *out);

/* Adds "remedies", the changed layouts with their step times and peaks, fastest first. */
void add_remedies_json(json_t *object, const struct setup *setup, const struct plan *plan,
                       double most_bytes);

#endif
