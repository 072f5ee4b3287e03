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

/* Predicts the plan for this batch on `gpus` GPUs of the system. Returns false with err when the
 * plan breaks a rule. Lists live in the arena. */
bool trial_predict(const struct trial_place *place, const struct plan *plan, int gpus, double batch,
                   struct arena *arena, struct scored_plan *out, struct err *err);
/* The rival with the fewest replicas with which it keeps the rules and fits. If only the whole
 * rival keeps the rules, it is returned even if it does not fit. gpus 0: not even the whole rival
 * keeps the rules. */
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
 * Each time it takes the trial that raises this probability most; among about equally good trials,
 * the one on the fewest GPUs. Then it tries to replace each chosen trial by a better one, and drops
 * trials that hardly help. The proposals are sorted: the most informative first, then the one that
 * adds most to it. `count` is at most 2 x MOST_RIVALS; runs[i] is the index in the belief of trial
 * i. Returns the number of proposals. */
int trials_propose(const struct belief *belief, const struct trial *trials, const int *runs,
                   int count, struct proposal out[MOST_TRIALS]);

#endif
