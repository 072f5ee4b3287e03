/* search/robust.h - whether the chosen plan stays the best when costs are not quite as modelled.
 *
 * Costs are wrong in classes: all matrix products, all traffic on the network ... Each class has a
 * factor on the system's own constants, so that a plan's time under other costs is evaluated as any
 * other: there is no second cost model. Only the given rivals are compared, a plan that is not
 * among them can't win; errors that hit all plans alike cancel. */
#ifndef SEARCH_ROBUST_H
#define SEARCH_ROBUST_H

#include "base/arena.h"
#include "search/search.h"

#include <stdint.h>

/* One class of costs. Add yours to `cost_classes` in cost_class.c. */
struct cost_class {
    const char *name;
    const char *summary; /* says what is scaled */
    /* Multiplies a rate, a latency or a size by `factor`, > 0. Data that the system points at is
     * copied into the arena before it is changed. */
    void (*scale)(struct system *system, double factor, struct arena *arena);
};
enum { MOST_COST_CLASSES = 16 };
extern const struct cost_class cost_classes[];
extern const int num_cost_classes;

struct robust_request {
    const struct system *system; /* its GPU's memory is the limit */
    const struct model *model;
    const struct scored_plan *rivals; /* the first is the choice; a few hundred, the best by time */
    int num_rivals;
    double spread; /* in a draw each class has a factor of its own, uniform in 1 +- spread; < 1 */
    int num_draws;
    uint64_t seed; /* the same seed draws the same factors, for all rivals */
    int jobs;
};

/* How one rival did in the draws. */
struct rival_score {
    int rival;             /* index; 0 is the choice */
    double best_share;     /* of draws in which it was the best */
    double close_share;    /* in which it fitted, within CLOSE_REGRET of the best */
    double fits_share;     /* in which it fitted */
    double largest_regret; /* where it fitted: step time over the best's, less 1 */
    double mean_regret;
};
#define CLOSE_REGRET 0.01

/* The smallest change of one class alone that makes another plan the best. */
struct flip {
    double factor; /* of the class; 0: none within 1 +- LARGEST_FLIP */
    int to;        /* the rival that is the best then; -1: none fits */
};
#define LARGEST_FLIP 0.5

struct robustness {
    double spread;
    int num_draws, num_rivals;
    struct rival_score choice;
    struct rival_score often; /* the rival that is best most often; the first of such */
    struct rival_score safe;  /* the one whose largest regret is least, of those that always fit */
    struct flip flips[MOST_COST_CLASSES]; /* by class */
};

/* The factor of one class in one draw, the same whichever worker asks. */
double robust_factor(const struct robust_request *request, int draw, int cost_class);

/* The smallest change of any one class within 1 +- `within` that makes another rival the best;
 * without draws. A flip that such a change undoes again is not seen. */
struct tipping_point {
    int cost_class; /* -1: none */
    struct flip flip;
};
struct tipping_point search_tipping_point(const struct robust_request *request, double within);

/* Needs at least one rival. It looks for a flip at steps of up to LARGEST_FLIP either way, and
 * bisects between two of them: a flip there and back between two steps is not seen. */
struct robustness search_robust(const struct robust_request *request);

#endif
