/* search/uneven/stages.h - what each stage of a pipeline takes with each number of layers.
 *
 * Given the layers and the recompute, nothing about a stage depends on the others: times are those
 * of evaluate_stage, and memory is the stage's own. So of all ways to hold k layers a stage needs
 * one, the fastest that fits: where the plan's recompute is block:N, with the fewest layers run
 * again. F is fixed by k, each recomputed layer adds to B, and no plan gets faster by a longer B.
 *
 * Middle stages differ in messages, and in the microbatches in flight, so in memory: none holds
 * more of them than the stage before. */
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
    int most_layers;              /* that any stage can have: each of the others has one */
    bool is_limited;              /* an option was left out as too slow, and all with more layers */
    double lag_s;                 /* of a message that holds up no stage */
    double step_s;                /* once a step, whatever the stages have */
    struct stage_option *options; /* [stage x most_layers + layers - 1], see stage_options */
    /* What no division can do without. after_s[stage]: from a last gradient's leaving the stage to
     * the end of the first stage's reduction. HUGE_VAL: no division fits. */
    double *after_s;
    double longest_optimizer_s;
    double longest_pass_s; /* forward and backward of one microbatch */
};

/* What a table is made of. The plan has one chunk a stage and passes plan_check with some list of
 * layers; its recompute is block:N where every stage shall have its own N. */
struct stage_request {
    const struct model *model;
    const struct plan *plan;
    int layers;          /* of every stage; 0: any */
    double memory_bytes; /* of a GPU */
    /* Options that alone take a step as long are as good as none. HUGE_VAL: all are wanted. */
    double limit_s;
    double step_s; /* least once a step, whatever the stages have (lattice_once_s) */
};

/* In the arena. */
struct stage_table stage_table_new(struct evaluator *evaluator, const struct stage_request *request,
                                   struct arena *arena);

/* Fills in what no division can do without, once there are options. */
void stage_table_close(struct stage_table *table, struct arena *arena);

/* most_layers of them: [layers - 1]. */
const struct stage_option *stage_options(const struct stage_table *table, int stage);
double stage_pass_s(const struct stage_option *option);

/* Of the divisions with the least longest pass one: layers[stage]. False when none fits. */
bool stage_table_balance(const struct stage_table *table, int *layers);

#endif
