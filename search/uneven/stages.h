/* search/uneven/stages.h - times of each stage of a pipeline with each number of layers; where the
 * model's blocks are of several kinds, behind each number of layers on stages before.
 *
 * Given its layers and recompute, a stage does not depend on the others: its times are those of
 * evaluate_stage, and its memory is its own. So of all ways to hold k layers only the fastest that
 * fits is needed: with block:N, the one that recomputes the fewest layers. F is fixed by k, each
 * recomputed layer adds to B, and no plan gets faster by a longer B.
 *
 * Middle stages differ in their messages and, by the microbatches in flight, in memory: no stage
 * has more microbatches in flight than the one before. */
#ifndef SEARCH_UNEVEN_STAGES_H
#define SEARCH_UNEVEN_STAGES_H

#include "base/arena.h"
#include "sim/engine/simulate.h"

struct stage_option {
    bool fits; /* else nothing below counts */
    int layers, recomputed;
    double forward_s, backward_s; /* of one microbatch, blocking messages included */
    double data_comm_s;           /* once, after the stage's last backward */
    double optimizer_s;           /* once; the step has the longest of all stages */
};

struct stage_table {
    int num_stages, num_layers, num_microbatches;
    int most_layers; /* of any stage: each of the others has at least one */
    int num_firsts;  /* layers that a stage may begin with: 1 where all layers are of one kind, so
                        that it does not matter which it has; else num_layers */
    bool is_limited; /* options from some number of layers on were left out as too slow */
    double lag_s;    /* latency of a message that blocks no stage */
    double step_s;   /* once a step, the same for all divisions */
    struct stage_option *options; /* see stage_options */
    /* Lower bounds of any division. after_s[stage]: from the last gradient's leaving the stage to
     * the end of the first stage's reduction. HUGE_VAL: no division fits. */
    double *after_s;
    double longest_optimizer_s;
    double longest_pass_s; /* forward and backward of one microbatch */
};

/* A table is made of these. The plan has one chunk a stage and passes plan_check with some list of
 * layers; its recompute is block:N where each stage chooses its own N. */
struct stage_request {
    const struct model *model;
    const struct plan *plan;
    int layers;          /* of every stage; 0: any */
    double memory_bytes; /* of a GPU */
    /* Options whose stage alone takes a step as long may be left out. HUGE_VAL: none are. */
    double limit_s;
    double step_s; /* least time once a step, the same for all divisions (lattice_once_s) */
};

/* In the arena. */
struct stage_table stage_table_new(struct evaluator *evaluator, const struct stage_request *request,
                                   struct arena *arena);

/* Fills in the lower bounds of any division, once there are options. */
void stage_table_close(struct stage_table *table, struct arena *arena);

/* The options of a stage behind `first` layers of the model, by layers - 1; most_layers of them. */
const struct stage_option *stage_options(const struct stage_table *table, int stage, int first);
double stage_pass_s(const struct stage_option *option);

/* A division whose longest pass is the least: layers[stage]. False when none fits. */
bool stage_table_balance(const struct stage_table *table, int *layers);

#endif
