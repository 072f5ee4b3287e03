/* search/questions/region.h - the share of a region of constants over which a plan stays the best.
 *
 * The region is a box: each constant's logarithm lies within z standard errors of its fitted value,
 * where z is chosen such that independent normal errors lie in the box with the requested
 * probability. Correlated errors lie in it at least as often (Sidak 1967), so correlations are not
 * needed. Constants that are shares of a peak are at most 1. Shares of the region are shares of its
 * volume in logarithms.
 *
 * No random draws are used. The box is halved repeatedly, and for each part bounds prove one of
 * these:
 *
 * - best: nowhere in the part is any plan of the space faster by more than BEST_WITHIN;
 * - beaten: one other plan is faster by more than BEST_WITHIN everywhere in the part.
 *
 * Both rest on two properties of the cost model, for which region.c gives the reasons: a slower
 * constant never makes a step shorter, and the logarithm of a step's time is convex in the
 * logarithms of the constants. A part remains undecided if neither is proved before the limit of
 * computed times and bounds (most_timed). */
#ifndef SEARCH_QUESTIONS_REGION_H
#define SEARCH_QUESTIONS_REGION_H

#include "search/search.h"

/* Plans whose times differ by less than this count as equally good; some times differ only by
 * rounding. */
#define BEST_WITHIN 0.001

enum { MOST_UNCERTAIN = 24, MOST_NAMED = 3, NUM_QUARTERS = 4 };

/* A constant and its error. */
struct uncertain {
    const char *name; /* key of the profile's or the stack's file */
    bool is_of_stack;
    size_t offset; /* offset of its double in struct profile or struct stack */
    double log_sd; /* standard error of its logarithm */
};

/* Volumes are fractions of the region's volume. */
struct region_range {
    const struct uncertain *of;
    double value, low, high;
    /* For each quarter of the range from log low to log high, with any values of the other
     * constants: the shares in which the choice is proved best and proved beaten. */
    double best[NUM_QUARTERS], beaten[NUM_QUARTERS];
};

struct region_rival {
    struct plan plan; /* its lists are in the result's arena */
    double volume;
};

struct region {
    double probability; /* lower bound of the region's probability */
    double z;           /* half width of each range in standard errors */
    struct region_range ranges[MOST_UNCERTAIN];
    int num_ranges;
    double best_share, beaten_share; /* shares of the region; the rest is undecided */
    int parts;
    double plans; /* number of plans that may be the best somewhere: plans whose family (a set of
                     plans, search/space.h) has a lower bound that does not exclude them */
    double timed; /* step times and bounds computed */
    int decides;  /* index of the range whose quarters differ most; -1: none differ */
    struct region_rival faster[MOST_NAMED]; /* plans that beat the choice in some parts, the largest
                                               volume first */
    int num_faster;
    /* plans that bounds do not rule out in the undecided parts */
    struct region_rival closest[MOST_NAMED];
    int num_closest;
    struct arena arena;
};

/* A part in which the choice is proved best, or beaten by one plan. */
struct region_part {
    /* ranges of the request's constants, by their indices; low and high are 0 for constants without
     * an error */
    double low[MOST_UNCERTAIN], high[MOST_UNCERTAIN];
    double volume;
    const struct plan *faster; /* NULL: the choice is the best */
};

struct region_request {
    const struct search_request *search; /* its space is searched; its objective must be time */
    const struct plan *choice;           /* one of its plans, which fits */
    const struct uncertain *constants;   /* must outlast the result */
    int num_constants;                   /* at most MOST_UNCERTAIN */
    double probability;                  /* requested probability of the region */
    double most_timed;                   /* limit of step times and bounds; 0: the default */
    /* Called with each decided part. May be NULL. */
    void (*decided)(void *context, const struct region_part *part);
    void *context;
};

/* ERR_USAGE when the two properties are not known to hold for the request's plans or constants.
 * Release the result in either case. */
bool region_find(const struct region_request *request, struct region *out, struct err *err);
void region_release(struct region *region);

#endif
