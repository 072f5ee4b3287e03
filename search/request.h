/* search/request.h - what a search is asked. */
#ifndef SEARCH_REQUEST_H
#define SEARCH_REQUEST_H

#include "sim/campaign/convergence.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

/* OBJECTIVE_COST compares the whole run's time if the tokens are known (search/effective.h).
 * Otherwise, and with uneven stages, it is the same as OBJECTIVE_TIME. OBJECTIVE_ACCURACY is for
 * search_time_to_accuracy (search/time_to_accuracy.h), which also chooses the exchange. */
enum objective { OBJECTIVE_TIME, OBJECTIVE_COST, OBJECTIVE_MEMORY, OBJECTIVE_ACCURACY };
extern const char *const objective_names[]; /* "time", "cost" ..., NULL */

/* Named spaces of plans. */
enum search_space { SEARCH_EVEN, SEARCH_MEGATRON, SEARCH_ALL };
extern const char *const search_space_names[]; /* "even", "megatron", "all", NULL */

/* Which modules selective recompute repeats: attention's core, or the fastest set that fits. */
enum parts_space { PARTS_CORE, PARTS_ALL };
extern const char *const parts_space_names[]; /* "core", "all", NULL */

enum { MAX_TOP = 1000 };

struct evaluators;

struct search_request {
    const struct system *system; /* the system, with the number of GPUs to use */
    const struct model *model;   /* its seq and batch are those of the run */
    const char *method;          /* name in search_methods; NULL: the default */
    const char *fix;    /* layout words that every candidate must have: "tp8 zero1"; NULL: none */
    const char *forbid; /* words that no candidate may have: "tp8 sp"; "pp" forbids every pp but the
                           default; NULL: none */
    bool placement;     /* whether to search every rank order that changes the placement of ranks */
    int chunks;         /* enum chunk_space (search/splits.h) */
    bool uneven;        /* whether also to divide the layers unevenly over stages */
    bool recompute_mixes;   /* whether each stage may recompute a different number of layers */
    bool recompute_modules; /* whether selective recompute repeats the fastest set of modules that
                               fits (PARTS_ALL); not with OBJECTIVE_MEMORY */
    /* Constraints that concern all stages of a plan together, for methods that support them
     * (milp). */
    int stage_types; /* maximum number of stage types (stages of one type have equally many layers
                        of each kind and recompute equally many layers); 0: no limit */
    bool same_recompute;      /* either all stages recompute the same number of layers, or each
                                 recomputes all its layers */
    double host_memory_bytes; /* memory of a node's host for offloaded state; 0: no limit */
    /* model of convergence, for OBJECTIVE_ACCURACY; NULL: the built-in one */
    const struct convergence *convergence;
    const struct plan *also; /* a plan whose values are added to the space; NULL: none */
    /* everything that is not searched: precision, optimizer, dtypes, overlap ... */
    struct plan base;
    int objective;           /* enum objective */
    double max_memory_bytes; /* memory limit per GPU; 0: the GPU's memory */
    double oom_risk; /* highest accepted probability of running out of memory; 0: every plan that is
                        predicted to fit is accepted */
    int top;         /* number of best plans wanted */
    int jobs;
    double time_limit_s; /* limit of the search's wall time; 0: none */
    double budget;       /* number of plans that a random method may score; 0: its default */
    int seed;            /* seed of random methods; 0: the default */
    struct evaluators *evaluators; /* evaluators that searches of one question share; NULL: the
                                      search makes its own */
    bool without_hints;            /* if nothing fits, do not search for changes that fit */
    double limit_s; /* step time above which plans are not needed (objectives time and cost); 0: no
                       limit */
    /* Polled regularly by any worker; true ends the search early (Ctrl-C). NULL: never. */
    bool (*interrupted)(void);
    /* Called with progress in [0, 1] by the calling thread's worker. May be NULL. */
    void (*progress)(double done, void *context);
    void *progress_context;
};

#endif
