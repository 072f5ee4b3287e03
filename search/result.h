/* search/result.h - what a search finds. */
#ifndef SEARCH_RESULT_H
#define SEARCH_RESULT_H

#include "search/scored_plan.h"

/* Number of candidates excluded by one rule, or by "memory". */
struct exclusion {
    const char *rule;
    const char *summary;
    double count;
};

struct search_result {
    const char *method;
    const char *space_name; /* description of the searched space */
    const char *leaves_out; /* text of search_leaves_out */
    struct scored_plan *top;
    int num_top;
    double candidates, evaluated, bounded, infeasible;
    struct exclusion *exclusions; /* most frequent first */
    int num_exclusions;
    bool with_uneven;              /* plans with uneven stages were searched too */
    struct scored_plan *even_best; /* with_uneven: the fastest even plan; NULL: none fits */
    double oom_risk;               /* the request's accepted risk of running out of memory */
    double planned_bytes;          /* highest predicted peak memory that oom_risk allows */
    /* The fastest plan that is predicted to fit but whose risk of running out of memory exceeds
     * oom_risk, if it is faster than the best plan. */
    struct scored_plan *tight; /* NULL: none */
    bool proved_optimal;       /* false when ended early */
    double lower_bound_s;      /* lower bound of every plan's step time in the space */
    bool timed_out, was_interrupted;
    double elapsed_s;
    /* When nothing fits: the plan that exceeds memory the least, and the fewest GPUs on which a
     * plan fits. */
    bool has_nearest;
    struct scored_plan nearest;
    int fewest_gpus;           /* 0: not found */
    struct scored_plan fewest; /* the plan on the fewest GPUs */
    struct arena arena;
};

#endif
