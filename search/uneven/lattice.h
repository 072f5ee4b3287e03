/* search/uneven/lattice.h - the points of a space whose layers can be divided unevenly.
 *
 * A point is a plan of the space without the layers of its chunks: 1F1B with one chunk per stage,
 * every value of order, tp, cp, sp, microbatch, pp and zero, and the space's values of recompute.
 * With mixes, block:N takes the place of none and full where the space has both; each stage has its
 * own N. */
#ifndef SEARCH_UNEVEN_LATTICE_H
#define SEARCH_UNEVEN_LATTICE_H

#include "search/method.h"

struct lattice_point {
    struct plan plan;       /* without lists of layers; block:0 stands for any block:N,... */
    const int *nearly_even; /* a division in which no stage has two layers more than another */
    double divisions;       /* number of divisions that the space of even chunks does not have */
    double floor_s;         /* none of them takes less */
    size_t number;          /* in the order of the space */
};

struct lattice {
    struct lattice_point *at; /* by rising floor; equal floors in the order of the space */
    size_t count, capacity;
};

/* Why no chunk of the space can be uneven, or NULL when some can. */
const char *lattice_lacks(const struct space *space);

/* The points that may take less than limit_s, in the arena. The tally counts the divisions of the
 * others, and of those that break a rule. Ended early, some points are missing. */
struct lattice lattice_new(const struct search *search, double limit_s, struct tally *tally,
                           struct arena *arena);

/* Layers of every stage of the plan; 0: any number, as `uneven` is asked for. */
int lattice_stage_layers(const struct search *search, const struct plan *plan);

/* The number of ways to divide the layers over stages of one or more layers; with mixes, times the
 * ways to choose how many of each stage's layers are recomputed. */
double count_divisions(int layers, int stages, bool mixes);

/* No division of the plan's layers takes less; the block's floor holds for every plan that differs
 * in zero and recompute alone, too. Each evaluates a few stages. */
double lattice_block_floor_s(struct evaluator *evaluator, const struct model *model,
                             const struct stack *stack, const struct plan *plan);
double lattice_floor_s(struct evaluator *evaluator, const struct model *model,
                       const struct stack *stack, const struct plan *plan);

/* Never above the costs once a step, however layers are divided and recomputed. */
double lattice_once_s(struct evaluator *evaluator, const struct model *model,
                      const struct stack *stack, const struct plan *plan);

#endif
