/* sim/engine/jitter.h - how far what runs strays from what it takes in the mean.
 *
 * One rank stands for each stage, but many GPUs wait for each other behind it: what is drawn for an
 * instruction is the slowest of those, in one draw (maximum_quantile). Each draw is of the seed and
 * of the instruction's place alone, so that the order of events changes none, and a plan under
 * faster wires meets the same luck. */
#ifndef SIM_ENGINE_JITTER_H
#define SIM_ENGINE_JITTER_H

#include "sim/engine/progress.h"

#include <stdint.h>

/* Counts are 1 or more. Spreads are standard deviations relative to the mean, of normal
 * distributions. */
struct jitter {
    uint64_t seed;
    double chip_spread;            /* of a chip's speed, for a whole step */
    double pass_spread;            /* of each pass of a chip */
    double wire_spread[NUM_WIRES]; /* of each transfer of a member of its group */
    int num_gpus;         /* of the job: the costs have the expected slowest of these already */
    int stage_ranks;      /* GPUs behind a stage, all replicas */
    int pass_ranks;       /* of one replica: they wait for each other in every pass */
    int data_members;     /* of a data group, or its nodes where it lies over several */
    double data_replicas; /* pipelines that the norm of the gradients waits for; of gossip, as many
                             as would be waited for as long (exchange_waits_for) */
};

/* How many times longer a stage's compute takes by its slowest chip, than by that of the job. */
double jitter_chips(const struct jitter *jitter, int stage);

/* ... and one pass, the index-th instruction of its list. What ranks wait for each other in the
 * mean was measured with the pass. */
double jitter_pass(const struct jitter *jitter, int stage, int index);

/* ... and one transfer, by the slowest of so many. A receive has its send's. */
double jitter_transfer(const struct jitter *jitter, int stage, int index, enum wire wire,
                       int members);

/* How long the norm waits on a stage for the slowest replica, whose `squares_s2` are the sum of
 * squares of its passes' times: their deviations add up over the step. */
double jitter_replicas_s(const struct jitter *jitter, int stage, double squares_s2);

#endif
