/* cli/views/answer.h - predictions as the JSON that other programs read: docs/reference.md names
 * the keys. */
#ifndef CLI_VIEWS_ANSWER_H
#define CLI_VIEWS_ANSWER_H

#include "cli/input/setup.h"

/* Days and dollars of a whole training; 0 when the tokens or the price are not known. */
double days_to_train(const struct setup *setup, const struct prediction *prediction);
/* Of all GPUs for so long. */
double dollars_of(const struct setup *setup, double run_s);
double dollars_to_train(const struct setup *setup, const struct prediction *prediction);

/* The object of one plan. with_plan: includes the plan file's object as "plan". */
json_t *prediction_json(const struct setup *setup, const struct plan *plan,
                        const struct prediction *prediction, bool with_plan);

/* A number; whole numbers are written without an exponent. */
json_t *number_json(double value);
/* A number; null when it is infinite or NaN. */
json_t *finite_json(double value);

/* Writes the plan file. */
bool write_plan(const char *path, const struct setup *setup, const struct plan *plan,
                const struct prediction *prediction, struct err *err);

#endif
