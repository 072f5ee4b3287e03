/* cli/views/deadline_view.h - "search --deadline": finds the fewest GPUs that finish in time, and
 * searches on them. */
#ifndef CLI_VIEWS_DEADLINE_VIEW_H
#define CLI_VIEWS_DEADLINE_VIEW_H

#include "cli/input/setup.h"
#include "search/questions/deadline.h"

struct deadline {
    double deadline_s; /* 0: none was given */
    int most_gpus;     /* largest number that --gpus allows */
    struct deadline_result result;
};

/* Checks that the tokens are known and the objective is time. */
bool check_deadline(const struct options *options, const struct setup *setup, struct err *err);

/* Finds the number of GPUs and sets it in the setup, to which the request refers. False: the
 * request is wrong. Release `out` in either case. It does nothing without a deadline. */
bool deadline_choose_gpus(const struct options *options, struct setup *setup,
                          struct search_request *request, struct deadline *out, struct err *err);
void deadline_release(struct deadline *deadline);

/* Whether the search for the number of GPUs itself was ended early; then its best plan is the
 * answer. */
bool deadline_ended_early(const struct deadline *deadline);
void deadline_fill_result(const struct deadline *deadline, struct search_result *result);

void show_deadline(const struct setup *setup, const struct deadline *deadline);
void add_deadline_json(json_t *object, const struct deadline *deadline);

/* Sets the error of exit code 3 if the deadline is missed. */
bool refuse_deadline(const struct deadline *deadline, struct err *err);

#endif
