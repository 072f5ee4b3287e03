/* search/uneven/joint.h - constraints on all stages of a plan together: few types of them, one
 * recompute for all, and the memory of the hosts that they share.
 *
 * The host of a node holds what its ranks offload: the optimizer's state with the gradients that it
 * reads, and the activations of layers that are not in use. */
#ifndef SEARCH_UNEVEN_JOINT_H
#define SEARCH_UNEVEN_JOINT_H

#include "search/method.h"

/* Whether the plan meets the request's constraints on all stages together. */
bool joint_holds(const struct search *search, const struct plan *plan);

/* Bytes that one rank of a stage with so many layers of each kind keeps on its host. */
double joint_host_bytes(const struct search *search, const struct plan *plan, int stage,
                        const int of_kind[MAX_BLOCK_KINDS]);

/* Bytes on the fullest host; and the mean over hosts, which is the same for every division of the
 * layers: where the mean is too much, no division meets the limit. */
double joint_most_host_bytes(const struct search *search, const struct plan *plan);
double joint_mean_host_bytes(const struct search *search, const struct plan *plan);

/* A kind of node: how many ranks of each stage it has, [stage]. */
struct host_node {
    const double *ranks;
};

/* The kinds of nodes; arrays in the arena. */
struct host_nodes {
    struct host_node *at;
    int count;
};
struct host_nodes joint_nodes(const struct search *search, const struct plan *plan,
                              struct arena *arena);

#endif
