/* cli/views/days_and_dollars.h - numbers of an answer as JSON, and the days and dollars of a
 * training. */
#ifndef CLI_VIEWS_DAYS_AND_DOLLARS_H
#define CLI_VIEWS_DAYS_AND_DOLLARS_H

#include "cli/input/setup.h"

/* Days of training on all of the model's tokens; 0 if the tokens are not known. */
double days_to_train(const struct setup *setup, const struct prediction *prediction);
/* Dollars for all GPUs of the job during `run_s` seconds. */
double dollars_of(const struct setup *setup, double run_s);
double dollars_to_train(const struct setup *setup, const struct prediction *prediction);

/* A number; whole numbers are written without an exponent. */
json_t *number_json(double value);
/* A number; null when it is infinite or NaN. */
json_t *finite_json(double value);

#endif
