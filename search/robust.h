/* search/robust.h - whether the chosen plan stays the best when modelled costs are somewhat wrong.
 *
 * Errors are grouped in cost classes, such as all matrix products or all network traffic. Each
 * class has a factor that scales the system's constants, and the usual cost model evaluates plans
 * on the changed system. Only the given plans (rivals) are compared, so no other plan can win;
 * errors common to all plans cancel. */
#ifndef SEARCH_ROBUST_H
#define SEARCH_ROBUST_H

#include "base/arena.h"
#include "search/search.h"

#include <stdint.h>

/* One class of costs. To add a class, extend `cost_classes` in cost_class.c. */
struct cost_class {
    const char *name;
    const char *summary; /* what is scaled, in one sentence */
    /* Multiplies a rate, a latency or a size by `factor`, > 0. Data that the system points to is
     * copied into the arena before it is changed. */
    void (*scale)(struct system *system, double factor, struct arena *arena);
};
enum { MOST_COST_CLASSES = 16 };
extern const struct cost_class cost_classes[];
extern const int num_cost_classes;

struct robust_request {
    const struct system *system; /* its GPU's memory is the limit */
    const struct model *model;
    /* a few hundred of the fastest plans; the first is the chosen plan */
    const struct scored_plan *rivals;
    int num_rivals;
    double spread; /* < 1; each draw gives each class a factor uniform in 1 +- spread */
    int num_draws;
    uint64_t seed; /* equal seeds draw equal factors; one draw's factors hold for all rivals */
    int jobs;
};

/* Results of one rival over all draws. */
struct rival_score {
    int rival;          /* index of the rival; 0 is the chosen plan */
    double best_share;  /* fraction of draws in which it was the best */
    double close_share; /* fraction of draws in which it fitted and was within CLOSE_REGRET of the
                           best */
    double fits_share;  /* fraction of draws in which it fitted */
    double largest_regret; /* over draws in which it fitted: step time / best step time - 1 */
    double mean_regret;
};
#define CLOSE_REGRET 0.01

/* The smallest change of one class alone that makes another plan the best. */
struct flip {
    double factor; /* factor of the class; 0: no other plan is best within 1 +- LARGEST_FLIP */
    int to;        /* the rival that is then the best; -1: none fits */
};
#define LARGEST_FLIP 0.5

struct robustness {
    double spread;
    int num_draws, num_rivals;
    struct rival_score choice;
    struct rival_score often; /* the rival that is best most often; the first on a tie */
    /* the rival that fits in the most draws; on a tie, the one with the least largest_regret */
    struct rival_score safe;
    struct flip flips[MOST_COST_CLASSES]; /* by class */
};

/* The factor of one class in one draw, the same in every worker. */
double robust_factor(const struct robust_request *request, int draw, int cost_class);

/* The smallest change of a single class within 1 +- `within` that makes another rival the best. It
 * uses no random draws. Of each class only the factors 1 + within and 1 - within are tried. If
 * another rival is the best there, bisection finds a factor at which the best rival changes. A
 * change that reverts before that factor is missed. */
struct tipping_point {
    int cost_class; /* -1: none */
    struct flip flip;
};
struct tipping_point search_tipping_point(const struct robust_request *request, double within);

/* The smallest deviation of the experts' popularity (routing_kind ROUTING_SKEWED) at which another
 * rival is the best. */
struct routing_flip {
    double cv; /* 0: no such deviation up to LARGEST_CV, or the model has no experts, or their loads
                  are given in another way, or the chosen plan is not the best at the model's own
                  deviation */
    int to;    /* the rival that is then the best; -1: none fits */
};
#define LARGEST_CV 1.0
/* The deviation is raised in steps; if the best rival changes and changes back within one step,
 * this is missed. */
struct routing_flip search_routing_flip(const struct robust_request *request);

/* Needs at least one rival. The search for a flip changes each factor in steps up to LARGEST_FLIP
 * either way until the best plan changes, then bisects: a change that reverts between two steps is
 * missed. */
struct robustness search_robust(const struct robust_request *request);

#endif
