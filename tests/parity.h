/* tests/parity.h - runs a plan with threads as ranks, to hold layouts against each other. */
#ifndef TESTS_PARITY_H
#define TESTS_PARITY_H

#include "exec/rank.h"

enum { MOST_STEPS = 32 };

struct parity_run {
    int steps;
    int optimizer; /* enum optimizer */
    float rate;
    bool unfused; /* attention */
    uint64_t seed;
    double delay_most_s;               /* random pauses on the streams */
    const struct token_source *tokens; /* NULL: random */
};

struct parity_result {
    double loss[MOST_STEPS], gradient_norm[MOST_STEPS];
    int num_weights;
    struct parity_weight *weights; /* whole, of the last step; parity_release */
};

/* One weight of the whole model, put together from the ranks that hold it. */
struct parity_weight {
    char name[48]; /* "3.qkv.0": layer, op, role */
    size_t elements;
    float *values;
    bool is_counted;
};

/* Fails the test when the run does. */
void parity_run(const struct model *model, const char *layout, const struct parity_run *run,
                struct parity_result *out);
void parity_release(struct parity_result *result);

/* Largest relative difference of two weights' values, over the norm of all of a's. */
double parity_distance(const struct parity_result *a, const struct parity_result *b);

#endif
