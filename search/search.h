/* search/search.h - the best plans of a named space, and why the others are not in it.
 *
 * A search walks a space of candidate plans (search/space) with a method, scores them with
 * sim/engine and keeps the best. The answer does not depend on the number of jobs. */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "base/arena.h"
#include "base/err.h"
#include "sim/campaign/convergence.h"
#include "sim/engine/simulate.h"

/* The last is search_accuracy's (search/accuracy.h): it chooses the exchange too. */
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
    bool uneven;          /* divide the layers unevenly over stages too */
    bool recompute_mixes; /* let each stage recompute a different number of layers */
    /* Constraints on all stages of a plan together; for methods that know them (milp). */
    int stage_types;          /* at most so many pairs of layers and recomputed layers; 0: any */
    bool same_recompute;      /* all stages recompute as many layers, or all of theirs */
    double host_memory_bytes; /* of a node's host, for offloaded state; 0: any */
    const struct convergence *convergence; /* of time-to-accuracy; NULL: the published one */
    const struct plan *also; /* a plan whose own values are in the space too; NULL: none */
    struct plan base; /* for all that is not searched: precision, optimizer, dtypes, overlap ... */
    int objective;    /* enum objective */
    double max_memory_bytes; /* per GPU; 0: the GPU's own */
    int top;                 /* plans wanted */
    int jobs;
    double time_limit_s; /* 0: none */
    double budget;       /* plans that a method that draws may score; 0: its default */
    int seed;            /* of those methods; 0: the default */
    /* Polled now and then from any worker; true ends the search early (Ctrl-C). NULL: never. */
    bool (*interrupted)(void);
    /* Gets progress in [0, 1] from the calling thread's worker. May be NULL. */
    void (*progress)(double done, void *context);
    void *progress_context;
};

/* A plan with its score. */
struct scored_plan {
    struct plan plan;
    struct prediction prediction; /* stages: in the result's arena */
};
/* A copy, with all that it points at, that outlasts its result. */
struct scored_plan scored_plan_copy(const struct scored_plan *from, struct arena *arena);

/* Why candidates are out, by rule: plan_rules' names, and "memory". */
struct exclusion {
    const char *rule;
    const char *summary;
    double count;
};

struct search_result {
    const char *method;
    const char *space_name; /* the space that the answer is best in, in words */
    const char *leaves_out; /* search_leaves_out */
    struct scored_plan *top;
    int num_top;
    double candidates, evaluated, bounded, infeasible;
    struct exclusion *exclusions; /* most frequent first */
    int num_exclusions;
    bool with_uneven;              /* plans with uneven stages were searched too */
    struct scored_plan *even_best; /* then: the fastest even plan; NULL: none fits */
    bool proved_optimal;           /* false when ended early */
    double lower_bound_s;          /* no plan of the space is faster */
    bool timed_out, was_interrupted;
    double elapsed_s;
    /* When nothing fits: the plan that lacks the least memory, and the fewest GPUs that fit. */
    bool has_nearest;
    struct scored_plan nearest;
    int fewest_gpus;           /* 0: not found */
    struct scored_plan fewest; /* the plan on that many */
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
    bool is_drawn; /* takes a budget and a seed */
};
extern const struct search_method search_methods[];
extern const int num_search_methods;
const struct search_method *search_method_find(const char *name);
/* Whether it knows the constraints on all stages together. */
bool search_method_joins(const struct search_method *method);
/* Whether it knows `uneven` and `recompute_mixes`. */
bool search_method_divides(const struct search_method *method);

/* False only when the request is wrong (unknown words in fix, method not there ...). No feasible
 * plan is an answer: num_top is 0 and the exclusions say why. Release the result in either case. */
bool search_run(const struct search_request *request, struct search_result *result,
                struct err *err);
/* The best may be beaten by at most this share of its time: 0 when it is proved, 1 when nothing is
 * known. */
double search_gap(const struct search_result *result);
void search_result_release(struct search_result *result);

/* The request whose space has this plan too: its values are added to the lists, its rank order and
 * its words that are not searched take the place of the base's. `plan` must outlast it. */
struct search_request search_including(const struct search_request *request,
                                       const struct plan *plan);

/* Where a layout stands among all plans of the space that fit: 1 is the best. */
struct rank_result {
    struct scored_plan plan;
    bool is_valid;   /* keeps the rules; else the error says which it breaks */
    double rank, of; /* of the space's plans that fit; rank 0 when it does not fit, or was ended */
    double lost_share; /* step time over the best's, less 1 */
};
/* A plan from outside the space ranks right behind the better ones. False only when the
 * request is wrong: a plan that breaks a rule is an answer. */
bool search_rank(const struct search_request *request, const struct search_result *result,
                 const struct plan *plan, struct arena *arena, struct rank_result *out,
                 struct err *err);

#endif
