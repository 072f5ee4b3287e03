/* sim/engine/jitter.h - random deviations of passes and transfers from their mean time.
 *
 * Each stage is simulated as one rank, but consists of many GPUs that wait for each other; one draw
 * gives the slowest of them (maximum_quantile). A draw depends only on the seed and the
 * instruction's place, so it does not change with the order of events or with the speed of
 * links. */
#ifndef SIM_ENGINE_JITTER_H
#define SIM_ENGINE_JITTER_H

#include "sim/engine/progress.h"

#include <stdint.h>

/* Counts are 1 or more. Spreads are standard deviations of normal distributions, relative to the
 * mean. */
struct jitter {
    uint64_t seed;
    double chip_spread; /* spread of the speed of chips; a chip's speed is constant within a step */
    double pass_spread; /* of each pass of a chip */
    double wire_spread[NUM_WIRES]; /* of each transfer, per member of its group */
    /* GPUs of the job; costs already include the expected slowdown by the slowest of them */
    int num_gpus;
    int stage_ranks;      /* GPUs of a stage in all replicas */
    int pass_ranks;       /* GPUs of one replica, which wait for each other in every pass */
    int data_members;     /* members of a data group, or its nodes when it spans several */
    double data_replicas; /* pipelines that the gradient norm waits for; for gossip, the equivalent
                             number (exchange_waits_for) */
};

/* A stage's slowdown by its own slowest chip, relative to the expected slowdown by the job's
 * slowest chip. */
double jitter_chips(const struct jitter *jitter, int stage);

/* Slowdown of one pass, the index-th instruction of its list. Measured passes already include the
 * mean time that ranks wait for each other. */
double jitter_pass(const struct jitter *jitter, int stage, int index);

/* Slowdown of one transfer by the slowest of its members. A receive has the slowdown of its
 * send. */
double jitter_transfer(const struct jitter *jitter, int stage, int index, enum wire wire,
                       int members);

/* How long the norm waits on a stage for the slowest replica. `squares_s2` is the sum of squares of
 * its passes' times, as their deviations add up over the step. */
double jitter_replicas_s(const struct jitter *jitter, int stage, double squares_s2);

#endif
