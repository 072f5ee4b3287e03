/* tests/sim/machine.h - a cluster for tests, and the bandwidth of its rings. */
#ifndef TESTS_SIM_MACHINE_H
#define TESTS_SIM_MACHINE_H

#include "sim/cost/group_links.h"

extern struct system machine; /* the loaded system */

/* Loads a cluster with Megatron-Core. A failure to load fails the test. */
void machine_load(const char *cluster, int num_gpus);
void machine_release(void);

/* Bandwidth of all channels of a ring together, inside a node and between nodes. */
double inside_gb_per_s(const struct comm_group *group);
double between_gb_per_s(const struct comm_group *group);

#endif
