/* tests/search/naive_space.h - the default search space as nested loops, for comparison with
 * search/.
 */
#ifndef TESTS_SEARCH_NAIVE_SPACE_H
#define TESTS_SEARCH_NAIVE_SPACE_H

#include "sim/engine/simulate.h"

/* A division of the layers over pp stages. Arrays of splits are sorted by increasing vpp and stay
 * valid until the process ends. */
struct naive_split {
    int vpp;
    int *layers;   /* the number of layers of each chunk; NULL if all are equal */
    bool is_apart; /* whether the MTP modules (multi-token prediction) are in the last chunk but one
                    */
};
struct naive_splits {
    struct naive_split *at;
    int count;
};
struct naive_splits naive_splits(const struct model *model, int pp);

struct naive_space {
    struct plan *at; /* the caller frees */
    int count;
};

/* All candidates in search/space.h's order, including candidates that break rules. */
struct naive_space naive_space_new(const struct model *model, int num_gpus);
/* The first rule that a candidate breaks, or NULL. A pipeline with a higher ZeRO stage than the
 * stack (training software) supports (1 if `system` is NULL) breaks the ZeRO rule. */
const struct plan_rule *naive_rule(const struct plan *plan, const struct model *model, int num_gpus,
                                   const struct system *system);
/* All candidates that break no rule. */
struct naive_space naive_space_kept(const struct model *model, int num_gpus,
                                    const struct system *system);

/* Changes a candidate as the search does. If full recompute does not fit, it becomes the first
 * full:K that fits or, if none fits, the full:K with the least memory. */
void naive_settle(struct evaluator *evaluator, const struct model *model, struct plan *plan);

/* Whether any candidate that breaks no rule fits in the memory of the system's GPUs. */
bool naive_space_fits(const struct system *system, const struct model *model);

/* The canonical layout; the caller frees. */
char *naive_layout(const struct plan *plan);

#endif
