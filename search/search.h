/* search/search.h - the best plans of a named space, and why other candidates are excluded.
 *
 * A search walks a space of candidate plans (search/space) with a method, scores them with
 * sim/engine and keeps the best. The answer does not depend on the number of jobs. */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "base/arena.h"
#include "base/err.h"
#include "sim/campaign/convergence.h"
#include "sim/engine/simulate.h"

/* Cost ranks by the whole run's time where the tokens are known (search/effective.h), else, and
 * where stages are divided unevenly, as time does. The last is for search_accuracy
 * (search/accuracy.h), which also chooses the exchange. */
enum objective { OBJECTIVE_TIME, OBJECTIVE_COST, OBJECTIVE_MEMORY, OBJECTIVE_ACCURACY };
extern const char *const objective_names[]; /* "time", "cost" ..., NULL */

/* Named spaces of plans. */
enum search_space { SEARCH_EVEN, SEARCH_MEGATRON, SEARCH_ALL };
extern const char *const search_space_names[]; /* "even", "megatron", "all", NULL */

enum { MAX_TOP = 1000 };

struct search_request {
    const struct system *system; /* num_gpus in it */
    const struct model *model;   /* seq and batch are the run's */
    const char *method;          /* name in search_methods; NULL: the default */
    const char *fix;      /* layout words that every candidate must have: "tp8 zero1"; NULL: none */
    const char *forbid;   /* words no candidate may have: "tp8 sp", or a whole axis: "pp"; NULL */
    bool placement;       /* search every rank order that moves ranks */
    int chunks;           /* enum chunk_space (search/divisions.h) */
    bool uneven;          /* also divide the layers unevenly over stages */
    bool recompute_mixes; /* let each stage recompute a different number of layers */
    /* Constraints on all stages of a plan together; for methods that know them (milp). */
    int stage_types;     /* most distinct pairs (layers, recomputed layers); 0: any number */
    bool same_recompute; /* all stages recompute the same number of layers, or all stages recompute
                            all */
    double host_memory_bytes;              /* of a node's host, for offloaded state; 0: no limit */
    const struct convergence *convergence; /* for OBJECTIVE_ACCURACY; NULL: the published one */
    const struct plan *also; /* a plan whose own values are in the space too; NULL: none */
    struct plan
        base;      /* everything that is not searched: precision, optimizer, dtypes, overlap ... */
    int objective; /* enum objective */
    double max_memory_bytes; /* per GPU; 0: the GPU's own */
    double oom_risk;         /* most P(out of memory) of a plan; 0: whatever is predicted to fit */
    int top;                 /* plans wanted */
    int jobs;
    double time_limit_s; /* 0: none */
    double budget;       /* scores that a random method may spend; 0: its default */
    int seed;            /* seed of random methods; 0: the default */
    /* Polled regularly by any worker; true ends the search early (Ctrl-C). NULL: never. */
    bool (*interrupted)(void);
    /* Called with progress in [0, 1] by the calling thread's worker. May be NULL. */
    void (*progress)(double done, void *context);
    void *progress_context;
};

/* A plan with its score. */
struct scored_plan {
    struct plan plan;
    struct prediction prediction; /* stages: in the result's arena */
};
/* A deep copy in the arena, which outlasts its result. */
struct scored_plan scored_plan_copy(const struct scored_plan *from, struct arena *arena);

/* Excluded candidates by rule: that of a rule, or "memory". */
struct exclusion {
    const char *rule;
    const char *summary;
    double count;
};

struct search_result {
    const char *method;
    const char *space_name; /* the searched space, in words */
    const char *leaves_out; /* search_leaves_out */
    struct scored_plan *top;
    int num_top;
    double candidates, evaluated, bounded, infeasible;
    struct exclusion *exclusions; /* most frequent first */
    int num_exclusions;
    bool with_uneven;              /* plans with uneven stages were searched too */
    struct scored_plan *even_best; /* with_uneven: the fastest even plan; NULL: none fits */
    double oom_risk;               /* as asked */
    double planned_bytes;          /* most that a plan of it is predicted to take of a GPU */
    /* The fastest of the plans that fit with too high a risk, where it is faster than the best. */
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

/* Sets chunks, and for SEARCH_ALL all that the request's method can add to the space. */
void search_set_space(struct search_request *request, enum search_space space);
/* In words, what the request's space leaves out and the option that adds it; "" where nothing. */
const char *search_leaves_out(const struct search_request *request, struct arena *arena);

struct search; /* search/method.h */

/* One way to search. Add yours to `search_methods` in methods.c. */
struct search_method {
    const char *name;
    const char *summary;
    const char *source;
    bool (*run)(const struct search *search, struct search_result *result, struct err *err);
    bool is_drawn; /* a random method: takes a budget and a seed */
};
extern const struct search_method search_methods[];
extern const int num_search_methods;
const struct search_method *search_method_find(const char *name);
/* Whether it supports the constraints on all stages together. */
bool search_method_joins(const struct search_method *method);
/* Whether it supports `uneven` and `recompute_mixes`. */
bool search_method_divides(const struct search_method *method);

/* False only when the request is wrong (unknown words in fix, unknown method ...). No feasible plan
 * is an answer: num_top is 0 and the exclusions say why. Release the result in either case. */
bool search_run(const struct search_request *request, struct search_result *result,
                struct err *err);
/* At most this share of the best plan's time can still be saved: 0 when it is proved, 1 when
 * nothing is known. */
double search_gap(const struct search_result *result);
void search_result_release(struct search_result *result);

/* The request whose space has this plan too: its values are added to the lists, its rank order and
 * its words that are not searched take the place of the base's. `plan` must outlast it. */
struct search_request search_including(const struct search_request *request,
                                       const struct plan *plan);

/* The rank of a layout among all plans of the space that fit: 1 is the best. */
struct rank_result {
    struct scored_plan plan;
    bool is_valid;   /* keeps all rules; else the error names the broken one */
    double rank, of; /* its rank, and the number of plans of the space that fit; rank 0 when it does
                        not fit or the search ended early */
    double lost_share; /* step time / best step time - 1 */
};
/* A plan from outside the space ranks right behind the better ones. False only when the
 * request is wrong: a plan that breaks a rule is an answer. */
bool search_rank(const struct search_request *request, const struct search_result *result,
                 const struct plan *plan, struct arena *arena, struct rank_result *out,
                 struct err *err);

#endif
