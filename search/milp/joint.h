/* search/milp/joint.h - what the stages of a plan must keep together: few types of them, one
 * recompute for all, and the memory of the hosts that they share.
 *
 * The host of a node keeps what its ranks offload: the optimizer's state with the gradients that it
 * reads, and the activations of the layers that are not in use. */
#ifndef SEARCH_MILP_JOINT_H
#define SEARCH_MILP_JOINT_H

#include "search/method.h"
#include "search/milp/division.h"

/* Whether the plan keeps what the request asks of stages together. */
bool joint_holds(const struct search *search, const struct plan *plan);

/* Of one rank of a stage that has so many layers. */
double joint_host_bytes(const struct search *search, const struct plan *plan, int stage,
                        int layers);

/* On the host that keeps most; and what hosts would keep if all were alike, whatever the division
 * of the layers: where that is too much, no division holds. */
double joint_most_host_bytes(const struct search *search, const struct plan *plan);
double joint_mean_host_bytes(const struct search *search, const struct plan *plan);

/* Nodes that differ in how many ranks of each stage they have; arrays in the arena. */
struct host_nodes {
    struct host_node *at;
    int count;
};
struct host_nodes joint_nodes(const struct search *search, const struct plan *plan,
                              struct arena *arena);

#endif
