/* sim/campaign/goodput.h - how long a whole training takes, failures included.
 *
 * Goodput is the share of the run's time whose work is kept; the rest goes into checkpoints,
 * restarts and work that is done again. The run takes the time of its steps divided by goodput. */
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
    double interval_s;      /* between checkpoints, whole steps */
    double steps;           /* per interval */
    double young_s, daly_s; /* the intervals by Young's and by Daly's formula */
    double kept, checkpoint_share, restart_share, lost_share; /* add up to 1; kept: goodput */
    double interruptions;                                     /* of the run, mean */
    double hosts_lost;                                        /* in the run, mean */
    struct expected run_s;
    int spare_hosts; /* enough, with probability 99 %, for all hosts under repair */
};

/* goodput_of checkpoints in the stack's way, goodput_in_way in the given one. CHECKPOINT_MEMORY
 * without a peer: kept is 0. */
struct goodput goodput_of(const struct run *run);
struct goodput goodput_in_way(const struct run *run, enum checkpointing way);

/* An upper bound on the goodput of any plan of this model whose step takes as long as this run's:
 * copies to the host take no time, and a checkpoint may fall within a step. */
double goodput_most(const struct run *run);

/* Standard deviation of the run's time divided by its mean `run_s`, from the random number and
 * times of failures alone. */
double goodput_chance_deviation(const struct goodput *of, double run_s);

#endif
