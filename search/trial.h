/* search/trial.h - short runs that decide which of several plans is the fastest.
 *
 * A rival is one of these plans. A trial runs it with fewer replicas on fewer GPUs: each rank keeps
 * its kernels, microbatches and stage; only groups of data ranks are smaller. sim/engine/belief.h
 * describes how its measured time changes the belief. */
#ifndef SEARCH_TRIAL_H
#define SEARCH_TRIAL_H

#include "search/search.h"
#include "sim/engine/belief.h"

struct trial {
    int rival;
    int gpus;
    double batch; /* in sequences: the rival's microbatches of fewer replicas */
    struct scored_plan plan;
};

/* The system, model and risk that trials are predicted with. */
struct trial_place {
    const struct system *system;
    const struct model *model; /* with the batch of the whole run */
    double oom_risk;           /* highest accepted risk of running out of memory */
};

/* Predicts a plan, with its replicas, on that many GPUs of the system. Lists live in the arena. */
bool trial_predict(const struct trial_place *place, const struct plan *plan, int gpus, double batch,
                   struct arena *arena, struct scored_plan *out, struct err *err);
/* The rival on the fewest GPUs on which it keeps the rules and fits; at most all GPUs. */
struct trial trial_of(const struct trial_place *place, const struct plan *rival, int number,
                      struct arena *arena);
/* Whether a plan is the rival's, on any number of GPUs. */
bool trial_is_of(const struct plan *plan, const struct plan *rival);

enum { MOST_TRIALS = 3 };
/* probability of the choice beyond which more runs are not worth their cost */
extern const double sure_enough;

/* A trial worth its GPUs, and the expected outcome of it together with the earlier ones. */
struct proposal {
    int trial; /* index */
    struct outlook outlook;
};

/* Chooses trials one after another, each the one that most raises the probability of the right
 * choice, until it reaches sure_enough. Of about equally good trials it takes the one on the fewest
 * GPUs. runs[i] is the belief's number of trial i. Returns the number of trials chosen. */
int trials_propose(const struct belief *belief, const struct trial *trials, const int *runs,
                   int count, struct proposal out[MOST_TRIALS]);

#endif
