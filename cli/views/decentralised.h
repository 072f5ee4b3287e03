/* cli/views/decentralised.h - the lectures' tables of decentralised training with predictions next
 * to the published values: times of a batch and hours of a training, for ResNet-50 and
 * BERT-Large. */
#ifndef CLI_VIEWS_DECENTRALISED_H
#define CLI_VIEWS_DECENTRALISED_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* One published number. */
struct decentralised_row {
    const char *paper;    /* name of calibration/papers/PAPER.json, which describes its network */
    const char *workload; /* name of a workload (models/workload.h) */
    const char *exchange;
    int gpus;
    bool is_training; /* true: hours of a whole training; false: seconds of a batch's exchange */
    double predicted, published;
};
enum { MOST_DECENTRALISED_ROWS = 24 };
struct decentralised {
    struct decentralised_row at[MOST_DECENTRALISED_ROWS];
    int count;
};

/* False when a shipped file is missing or faulty. */
bool decentralised_predict(struct decentralised *out, struct err *err);

/* "simsearch list decentralised": the entries as JSON, and a page with each method's constants. */
json_t *decentralised_entries(struct err *err);
void decentralised_print(FILE *to);

#endif
