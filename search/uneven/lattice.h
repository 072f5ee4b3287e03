/* search/uneven/lattice.h - the points of a space whose layers can be divided unevenly.
 *
 * A point is a plan of the space but for the layers of its chunks: one chunk a stage in 1F1B, every
 * value of order, tp, cp, sp, microbatch, pp and zero, and of recompute those of the space or, with
 * mixes, block:N for a number N of each stage's own where the space has both none and full. */
#ifndef SEARCH_UNEVEN_LATTICE_H
#define SEARCH_UNEVEN_LATTICE_H

#include "search/method.h"

struct lattice_point {
    struct plan plan;       /* without lists of layers; block:0 stands for any block:N,... */
    const int *nearly_even; /* a division in which no stage has two layers more than another */
    double divisions;       /* that the space of even chunks does not have */
    double floor_s;         /* none of them takes less */
    size_t number;          /* in the order of the space */
};

struct lattice {
    struct lattice_point *at; /* by rising floor; floors of their like in the order of the space */
    size_t count, capacity;
};

/* Why no chunk of the space can be uneven, or NULL when some can. */
const char *lattice_lacks(const struct space *space);

/* Points that may take less than limit_s, in the arena; divisions of the others, and those that
 * break a rule, are counted in the tally. Ended early, the points are not all. */
struct lattice lattice_new(const struct search *search, double limit_s, struct tally *tally,
                           struct arena *arena);

/* Layers of every stage of the plan; 0: as many as may be, `uneven` is asked for. */
int lattice_stage_layers(const struct search *search, const struct plan *plan);

/* Ways to divide the layers over stages of one or more; with mixes, times those to choose how many
 * of each stage's run again. */
double count_divisions(int layers, int stages, bool mixes);

/* No division of the plan's layers takes less; nor, of the block's, that of any plan that differs
 * in zero and recompute alone. A few evaluations of a stage. */
double lattice_block_floor_s(struct evaluator *evaluator, const struct model *model,
                             const struct stack *stack, const struct plan *plan);
double lattice_floor_s(struct evaluator *evaluator, const struct model *model,
                       const struct stack *stack, const struct plan *plan);

/* Never above what a step has once, however the layers are divided and whatever is run again. */
double lattice_once_s(struct evaluator *evaluator, const struct model *model,
                      const struct stack *stack, const struct plan *plan);

#endif
