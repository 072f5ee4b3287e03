/* cli/views/answer.h - predictions as JSON for other programs. docs/reference.md lists the keys. */
#ifndef CLI_VIEWS_ANSWER_H
#define CLI_VIEWS_ANSWER_H

#include "cli/views/days_and_dollars.h"

/* The object of one plan. With with_plan it includes the plan file's object as "plan". */
json_t *prediction_json(const struct setup *setup, const struct plan *plan,
                        const struct prediction *prediction, bool with_plan);

/* Writes the plan file. */
bool write_plan(const char *path, const struct setup *setup, const struct plan *plan,
                const struct prediction *prediction, struct err *err);

#endif
