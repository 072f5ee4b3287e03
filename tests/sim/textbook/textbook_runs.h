/* tests/sim/textbook/textbook_runs.h - published runs, for comparison with the textbook's
 * formulas. */
#ifndef TESTS_SIM_TEXTBOOK_TEXTBOOK_RUNS_H
#define TESTS_SIM_TEXTBOOK_TEXTBOOK_RUNS_H

#include "models/model.h"
#include "sim/textbook/memory.h"
#include "sim/textbook/pipeline.h"

/* This is the peak of dense bf16 products; with 2:4 sparsity it is 624e12. */
static const double a100_flops_per_s = 312e12;

extern const struct model gpt3;

/* Published runs that the papers describe by their dimensions. Korthikanti et al. 2022, table 3:
 * s = 2048, V = 51200, one replica. */
struct textbook_run {
    struct model model;
    int tensor, microbatch;
    struct textbook_pipeline pipeline;
    int batch, gpus;
    double step_s; /* with selective recompute and sequence parallelism */
    double model_percent,
        hardware_percent;        /* utilization relative to 312 TFLOP/s, from the formulas */
    double all_gib, sharded_gib; /* GiB of activations with tensor parallelism alone, and with
                                    selective recompute and sequence parallelism */
    double static_gib;           /* GiB of weights, gradients and optimizer */
    double sequence, selective, both, full; /* activations in percent of all_gib, from figure 7 */
};

enum { NUM_TEXTBOOK_RUNS = 4 };
extern const struct textbook_run textbook_runs[NUM_TEXTBOOK_RUNS];

/* Returns the recipe of this name; fails the test if there is none. */
const struct textbook_recipe *recipe_named(const char *name);

/* Checks that `got` differs from `want` by at most this fraction. */
void check_within(double got, double want, double share);

#endif
