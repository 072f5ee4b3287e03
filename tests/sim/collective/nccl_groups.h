/* tests/sim/collective/nccl_groups.h - groups of ranks, with the properties of their machines that
 * NCCL detects.
 *
 * Properties that must always hold are tested on all of these groups, published numbers on the
 * first few. The channels and rates are those that NCCL chooses on these machines. */
#ifndef TESTS_SIM_COLLECTIVE_NCCL_GROUPS_H
#define TESTS_SIM_COLLECTIVE_NCCL_GROUPS_H

#include "sim/collective/collective.h"

enum {
    H100_NODE,
    H100_4,
    H100_2_NODES,
    H100_16_NODES,
    H100_8_ALONE,
    A100_NODE,
    A100_128_NODES,
    B200_NODE,
    B200_3_NODES,
    V100_PCI,
    V100_6_NODES,
    UNEVEN,
    MILLION,
    OFF_RAILS,
    SHARP_2_NODES,
    SHARP_16_NODES,
    SHARP_ALONE,
    SHARP_A100,
    UNCAPPED_VOLTA, /* this group and the next two lie on one, two and four nodes */
    UNCAPPED_AMPERE = UNCAPPED_VOLTA + 3,
    UNCAPPED_HOPPER = UNCAPPED_AMPERE + 3,
    UNCAPPED_BLACKWELL = UNCAPPED_HOPPER + 3,
    NUM_NCCL_GROUPS = UNCAPPED_BLACKWELL + 3
};

extern const struct comm_group nccl_groups[NUM_NCCL_GROUPS];

#define KIB            1024.0
#define MIB            (1024 * KIB)
#define GIB            (1024 * MIB)
#define SECONDS_PER_US 1e-6

/* Time of one algorithm, whether or not NCCL would consider it. */
double nccl_time_s(const struct collective_algo *algo, const struct comm_group *group,
                   enum collective collective, enum protocol protocol, double bytes);

#endif
