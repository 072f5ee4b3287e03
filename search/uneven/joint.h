/* search/uneven/joint.h - constraints on all stages of a plan together: the number of stage types,
 * the same recompute for all, and the memory of shared hosts.
 *
 * A node's host holds what its ranks offload: the optimizer state with the gradients that it reads,
 * and activations of layers not in use. */
#ifndef SEARCH_UNEVEN_JOINT_H
#define SEARCH_UNEVEN_JOINT_H

#include "search/method.h"

/* Whether the plan meets the request's constraints on all stages together. */
bool joint_holds(const struct search *search, const struct plan *plan);

/* Bytes that one rank of a stage with of_kind[] layers keeps on its host. */
double joint_host_bytes(const struct search *search, const struct plan *plan, int stage,
                        const int of_kind[MAX_BLOCK_KINDS]);

/* Bytes on the fullest host, and a lower bound of the mean over hosts that holds for every division
 * of the layers: when it exceeds the limit, no division meets the limit. */
double joint_most_host_bytes(const struct search *search, const struct plan *plan);
double joint_mean_host_bytes(const struct search *search, const struct plan *plan);

/* A kind of node: ranks[stage] is the number of ranks of each stage on it. */
struct host_node {
    const double *ranks;
};

/* All kinds of nodes; arrays in the arena. */
struct host_nodes {
    struct host_node *at;
    int count;
};
struct host_nodes joint_nodes(const struct search *search, const struct plan *plan,
                              struct arena *arena);

#endif
