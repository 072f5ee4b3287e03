/* search/uneven/stages.h - times of each pipeline stage for each number of layers and, with several
 * kinds of blocks, for each number of layers on the earlier stages.
 *
 * Given its layers and recompute, a stage's times (evaluate_stage) and memory do not depend on the
 * other stages. So of all ways to hold k layers only the fastest that fits is needed. With block:N
 * this is the one that recomputes the fewest layers: k determines the forward time, each recomputed
 * layer lengthens the backward, and a longer backward makes no plan faster. If a plan lists the
 * recomputed modules of each stage, only the set of modules with the shortest backward is needed.
 * The set changes neither the forward nor messages. 1F1B's step is a maximum over sums of passes,
 * so it never falls when a pass gets longer, and each additional second of backward hides at most
 * one more second of the stage's gradient reduction. So each stage can choose alone. Of sets that
 * take the same time, the first in the request's order is chosen.
 *
 * Middle stages differ only in messages and in memory, as no stage has more microbatches in flight
 * than the previous one. */
#ifndef SEARCH_UNEVEN_STAGES_H
#define SEARCH_UNEVEN_STAGES_H

#include "base/arena.h"
#include "sim/engine/simulate.h"

struct stage_option {
    bool fits; /* false: the members below are not set, except the layers of an option that was
                  tried and does not fit */
    int layers;
    /* with block:N the number of recomputed layers; if the plan lists modules for each stage, the
     * set of recomputed modules */
    int recomputed;
    /* Times of one microbatch, blocking messages included; if the stage has several chunks, only
     * the times of its first chunk. The backward is only that of the input gradients if weight
     * gradients are computed separately. */
    double forward_s, backward_s;
    double others_s; /* the passes of the stage's other chunks, minus the average time saved by
                        running a forward and a backward as a pair */
    /* weights_s: the part of others_s for weight gradients. first_weights_s: the time of the first
     * chunk's weight gradients. */
    double weights_s, first_weights_s;
    double data_comm_s; /* once per step, after the stage's last backward */
    double optimizer_s; /* once per step; the longest of all stages counts */
};

struct stage_table {
    int num_stages, num_layers, num_microbatches;
    int most_layers; /* largest number of layers of any stage: what is left if all other stages have
                        their fewest, or less if a stage with more layers takes longer than the
                        limit */
    int num_firsts;  /* number of distinct first layers of a stage: 1 when all layers are of one
                        kind, as the position then does not matter; else num_layers + 1 */
    bool is_limited; /* whether options with many layers were dropped as too slow */
    /* Whether the schedule is not 1F1B. Then only the bound for any order of passes holds. */
    bool in_any_order;
    bool validates; /* whether stages start their update without waiting for the gradient norm of
                       all stages */
    double lag_s;   /* latency of a non-blocking message */
    double step_s;  /* once per step, the same for all divisions */
    struct stage_option *options; /* see stage_options */
    /* Lower bounds over all divisions; HUGE_VAL: no division fits. after_s[stage]: time from the
     * last gradient's leaving the stage to the end of the first stage's reduction. */
    double *after_s;
    double longest_optimizer_s;
    double longest_pass_s; /* forward and backward of one microbatch */
};

/* The input of a table. plan_check must accept the plan with some list of layers. For
 * stage_table_new it has one chunk per stage; with recompute block:N each stage chooses its own
 * N. */
struct stage_request {
    const struct model *model;
    const struct plan *plan;
    /* the sets of modules that a stage may recompute, if the plan lists modules for each stage */
    const int *sets;
    int num_sets;
    int layers;          /* layers of every stage; 0: any */
    double head_layers;  /* model_head_layers */
    double memory_bytes; /* GPU memory */
    /* Options may be dropped if their stage alone makes a step take this long. HUGE_VAL: none. */
    double limit_s;
    double step_s; /* lower bound of the fixed time per step, for all divisions (lattice_once_s) */
};

/* Makes the table, in the arena. */
struct stage_table stage_table_new(struct evaluator *evaluator, const struct stage_request *request,
                                   struct arena *arena);

/* Fills in the lower bounds over all divisions, after the options. */
void stage_table_close(struct stage_table *table, struct arena *arena);

/* The options of a stage that begins after `first` layers, indexed by layers; most_layers + 1 of
 * them. */
const struct stage_option *stage_options(const struct stage_table *table, int stage, int first);
/* The time of all passes of one microbatch. */
double stage_pass_s(const struct stage_option *option);

/* A division whose longest pass is the least: layers[stage]. False when none fits. */
bool stage_table_balance(const struct stage_table *table, int *layers);

#endif
