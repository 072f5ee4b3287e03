/* search/trial.h - short runs that tell which of several plans is the fastest.
 *
 * A trial runs a rival with fewer replicas, on fewer GPUs: each rank keeps its kernels, its
 * microbatches and its stage, and groups of data ranks are smaller. sim/engine/belief.h says what
 * it teaches. */
#ifndef SEARCH_TRIAL_H
#define SEARCH_TRIAL_H

#include "search/search.h"
#include "sim/engine/belief.h"

struct trial {
    int rival;
    int gpus;
    double batch; /* sequences: the rival's microbatches, of fewer replicas */
    struct scored_plan plan;
};

/* The question that runs are judged by. */
struct trial_place {
    const struct system *system;
    const struct model *model; /* with the batch of the whole run */
    double oom_risk;           /* most of it */
};

/* A plan, with its replicas, predicted on so many GPUs of the system. Lists live in the arena. */
bool trial_predict(const struct trial_place *place, const struct plan *plan, int gpus, double batch,
                   struct arena *arena, struct scored_plan *out, struct err *err);
/* The rival on the fewest GPUs that it keeps the rules and fits on; all of them when there are no
 * fewer. */
struct trial trial_of(const struct trial_place *place, const struct plan *rival, int number,
                      struct arena *arena);
/* Whether a plan is the rival's on however many GPUs. */
bool trial_is_of(const struct plan *plan, const struct plan *rival);

enum { MOST_TRIALS = 3 };
extern const double sure_enough; /* of the choice: more runs are not worth it */

/* A trial worth its GPUs, and what is expected of it and those before it. */
struct proposal {
    int trial; /* index */
    struct outlook outlook;
};

/* The trials, in turn, that most raise the chance of the choice, until it is sure enough; of those
 * as good, or good enough, the one on the fewest GPUs. runs[i]: the belief's number of trial i.
 * Returns their number. */
int trials_propose(const struct belief *belief, const struct trial *trials, const int *runs,
                   int count, struct proposal out[MOST_TRIALS]);

#endif
