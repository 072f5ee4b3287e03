/* sim/campaign/goodput.h - how long a whole training takes, failures included.
 *
 * Goodput is the share of the run's time that is spent on steps whose results are kept. The rest is
 * spent on checkpoints, on restarts and on steps that are repeated after a failure. The run's time
 * is the time of its steps divided by goodput. */
#ifndef SIM_CAMPAIGN_GOODPUT_H
#define SIM_CAMPAIGN_GOODPUT_H

#include "sim/campaign/checkpoint.h"
#include "sim/campaign/failures.h"
#include "sim/campaign/renewal.h"

/* A run whose steps are predicted. */
struct run {
    const struct system *system;
    const struct model *model;
    const struct plan *plan;
    const struct stage_memory *stages;
    double work_s; /* time of all its steps */
    double step_s, step_low_s, step_high_s;
};

/* A number and its 90 % interval. */
struct expected {
    double mean, low, high;
};

struct goodput {
    enum checkpointing way;
    struct failures failures;
    struct checkpoint checkpoint;
    struct renewal renewal;
    double interval_s;      /* between checkpoints, a whole number of steps */
    double steps;           /* steps per interval */
    double young_s, daly_s; /* the intervals by Young's and by Daly's formula */
    /* shares of the run's time, sum 1; kept is goodput */
    double kept, checkpoint_share, restart_share, lost_share;
    double interruptions; /* mean number in the whole run */
    double hosts_lost;    /* mean number in the whole run */
    struct expected run_s;
    int spare_hosts; /* enough, with probability 99 %, for all hosts under repair */
};

/* goodput_of uses the way of checkpointing of the stack (training software), goodput_in_way the
 * given one. With CHECKPOINT_MEMORY and no peer host, `kept` is 0. */
struct goodput goodput_of(const struct run *run);
struct goodput goodput_in_way(const struct run *run, enum checkpointing way);

/* An upper bound on the goodput of any plan of this model whose step takes as long as this run's:
 * it assumes that copies to the host take no time and that a checkpoint may be taken within a
 * step. */
double goodput_most(const struct run *run);

/* Standard deviation of the run's time divided by its mean `run_s`. It counts only the random
 * number and times of failures. */
double goodput_chance_deviation(const struct goodput *of, double run_s);

#endif
