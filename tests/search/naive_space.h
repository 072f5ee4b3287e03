/* tests/search/naive_space.h - the default search space as nested loops, for comparison with
 * search/.
 */
#ifndef TESTS_SEARCH_NAIVE_SPACE_H
#define TESTS_SEARCH_NAIVE_SPACE_H

#include "sim/engine/simulate.h"

/* A division of the layers over pp stages; lists are sorted by rising vpp and live as long as the
 * process. */
struct naive_split {
    int vpp;
    int *layers; /* layers of each chunk; NULL: even */
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
/* The first rule that a candidate breaks, or NULL; a pipeline takes no ZeRO stage above that of the
 * system's stack (NULL: above 1), which breaks the rule of ZeRO. */
const struct plan_rule *naive_rule(const struct plan *plan, const struct model *model, int num_gpus,
                                   const struct system *system);
/* The candidates that keep the rules. */
struct naive_space naive_space_kept(const struct model *model, int num_gpus,
                                    const struct system *system);

/* Changes a candidate as the search does: if full recompute does not fit, to the first full:K that
 * does, or else to the full:K of least memory. */
void naive_settle(struct evaluator *evaluator, const struct model *model, struct plan *plan);

/* Whether one of the candidates that keep the rules fits in the system's GPUs. */
bool naive_space_fits(const struct system *system, const struct model *model);

/* The canonical layout; the caller frees. */
char *naive_layout(const struct plan *plan);

#endif
