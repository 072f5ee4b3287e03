/* search/uneven/lattice.h - the points of a space whose layers can be divided unevenly.
 *
 * A point is a plan of the space without a division of layers: it has a value of each searched word
 * (order, tp, cp, sp, microbatch, pp, zero, recompute) and a number of chunks per stage. Its layers
 * are divided over 1F1B stages, or dealt to the chunks of each stage (uneven/deal.h). With mixed
 * recompute (recompute_mixes of the request), block:N with a separate N per stage replaces `none`
 * and `full` in 1F1B if the space has both. If it has `none` and `selective`, each stage of a point
 * with selective recompute repeats its own set of modules, or none. A division of such a point is
 * counted once, not once per set of modules. */
#ifndef SEARCH_UNEVEN_LATTICE_H
#define SEARCH_UNEVEN_LATTICE_H

#include "search/method.h"

struct lattice_point {
    /* without lists of layers; block:0 represents every block:N,..., and a list of one empty set
     * represents all sets of recomputed modules */
    struct plan plan;
    /* Layers of each chunk, in a division whose stages differ by at most one layer, or by as few
     * layers as possible if they are dealt. */
    const int *nearly_even;
    double divisions; /* number of divisions that are not in the space of even chunks */
    double floor_s;   /* lower bound of the step times of the point's divisions */
    size_t number;    /* position in the space's order */
};

struct lattice {
    struct lattice_point *at; /* by rising floor; equal floors in the order of the space */
    size_t count;
};

/* The reason why stages of the space cannot have different numbers of layers; NULL if they can. */
const char *lattice_lacks(const struct search *search);
/* Whether the search also divides the layers of schedules other than 1F1B. It does if `uneven` is
 * requested and no constraint applies to several stages together. */
bool lattice_deals(const struct search *search);
/* Whether each 1F1B stage may repeat its own set of modules: with recompute_mixes, if no constraint
 * applies to several stages. It may not if activations are kept on the host, because a larger set
 * then also shortens the copies to the host. It may not with op-selective, which is a policy for
 * ops and not a set of modules. */
bool lattice_mixes_parts(const struct search *search);

/* The points with a bound below limit_s, in the arena. The evaluators must have begun. The tally
 * counts the divisions of all other points, including points that break a rule. When ended early,
 * some points are missing. */
struct lattice lattice_new(const struct search *search, struct evaluators *evaluators,
                           double limit_s, struct tally *tally, struct arena *arena);

/* Layers of every stage if the plan's 1F1B division must be even; 0: any number, because `uneven`
 * is requested. */
int lattice_stage_layers(const struct search *search, const struct plan *plan);

/* The number of ways to divide the layers over stages with at least one layer each; with mixes,
 * including the choice of how many layers each stage recomputes. */
double count_divisions(int layers, int stages, bool mixes);

/* Lower bounds of the step times of all divisions of the plan's layers. The bound of a block also
 * holds for plans that differ only in zero and recompute. Each function evaluates a few stages. */
double lattice_block_floor_s(struct evaluator *evaluator, const struct model *model,
                             const struct stack *stack, const struct plan *plan);
double lattice_floor_s(struct evaluator *evaluator, const struct model *model,
                       const struct stack *stack, const struct plan *plan);

/* A lower bound of the fixed costs per step, however layers are divided and recomputed. */
double lattice_once_s(struct evaluator *evaluator, const struct model *model,
                      const struct stack *stack, const struct plan *plan);

#endif
