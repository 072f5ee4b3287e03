/* search/trial.h - short runs that decide which of several plans is the fastest.
 *
 * A rival is one of these plans. A trial runs a rival with fewer replicas on fewer GPUs: each rank
 * keeps its kernels, microbatches and stage; only groups of data ranks are smaller. The belief
 * (sim/engine/belief.h) is the joint distribution of all rivals' step times, given the trials
 * measured so far. */
#ifndef SEARCH_TRIAL_H
#define SEARCH_TRIAL_H

#include "search/search.h"
#include "sim/engine/belief.h"

struct trial {
    int rival;
    int gpus;
    double batch; /* batch in sequences; each replica has as many microbatches as in the rival */
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
/* Whether the plan is a trial of the rival: the same plan, with any number of replicas. */
bool trial_is_of(const struct plan *plan, const struct plan *rival);

enum { MOST_TRIALS = 3 };
/* probability that the chosen plan is the fastest, above which further runs are not worth their
 * cost */
extern const double sure_enough;

/* A proposed trial, and the outcome that is expected of it and the trials proposed before it. */
struct proposal {
    int trial; /* index of the rival */
    struct outlook outlook;
};

/* Chooses trials one by one until the probability of choosing the fastest plan reaches sure_enough.
 * Each is the trial that raises this probability most; among about equally good trials, the one on
 * the fewest GPUs. There are at most 2 x MOST_RIVALS trials; runs[i] becomes the index of trial i
 * in the belief. Returns the number of trials chosen. */
int trials_propose(const struct belief *belief, const struct trial *trials, const int *runs,
                   int count, struct proposal out[MOST_TRIALS]);

#endif
