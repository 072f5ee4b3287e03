/* tests/search/naive_space.h - the default search space as nested loops, to hold search/ against.
 */
#ifndef TESTS_SEARCH_NAIVE_SPACE_H
#define TESTS_SEARCH_NAIVE_SPACE_H

#include "sim/engine/simulate.h"

/* Ways to lay the layers over pp stages, by rising vpp; all lists live as long as the process. */
struct naive_split {
    int vpp;
    int *layers; /* of each chunk; NULL: even */
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

/* All candidates in search/space.h's order, those that break rules too. */
struct naive_space naive_space_new(const struct model *model, int num_gpus);
/* The first rule that a candidate breaks, or NULL; a pipeline takes no ZeRO stage above that of the
 * system's stack (NULL: above 1), which breaks the rule of ZeRO. */
const struct plan_rule *naive_rule(const struct plan *plan, const struct model *model, int num_gpus,
                                   const struct system *system);
/* The candidates that keep the rules. */
struct naive_space naive_space_kept(const struct model *model, int num_gpus,
                                    const struct system *system);
/* Whether one of those has room in the system's GPUs. */
/* What the search makes of a candidate: where full recompute does not fit, the first full:K that
 * does, or the one up to which memory falls. */
void naive_settle(struct evaluator *evaluator, const struct model *model, struct plan *plan);

bool naive_space_fits(const struct system *system, const struct model *model);

/* The canonical layout; the caller frees. */
char *naive_layout(const struct plan *plan);

#endif
