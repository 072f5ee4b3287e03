/* cli/views/amounts.h - numbers of an answer as JSON, and the days and dollars of a training. */
#ifndef CLI_VIEWS_AMOUNTS_H
#define CLI_VIEWS_AMOUNTS_H

#include "cli/input/setup.h"

/* The days of a whole training, and its dollars; 0 when the tokens or the price are not known. */
double days_to_train(const struct setup *setup, const struct prediction *prediction);
/* The price of all GPUs for this time. */
double dollars_of(const struct setup *setup, double run_s);
double dollars_to_train(const struct setup *setup, const struct prediction *prediction);

/* A number; whole numbers are written without an exponent. */
json_t *number_json(double value);
/* A number; null when it is infinite or NaN. */
json_t *finite_json(double value);

#endif
