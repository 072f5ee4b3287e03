/* search/uneven/joint.h - constraints on all stages of a plan together: the number of stage types,
 * equally many recomputed layers on all stages, and the memory of hosts that several ranks share.
 * Stages of one type have the same layers of each kind and equally many recomputed layers.
 *
 * A node's host holds what its ranks offload: the optimizer state with the gradients that it reads,
 * and activations of layers not in use. */
#ifndef SEARCH_UNEVEN_JOINT_H
#define SEARCH_UNEVEN_JOINT_H

#include "search/method.h"

/* Whether the plan meets the request's constraints on all stages together. */
bool joint_holds(const struct search *search, const struct plan *plan);

/* Bytes that one rank of `stage` keeps on its host if the stage has of_kind[k] layers of kind k. */
double joint_host_bytes(const struct search *search, const struct plan *plan, int stage,
                        const int of_kind[MAX_BLOCK_KINDS]);

/* Bytes on the fullest host. */
double joint_most_host_bytes(const struct search *search, const struct plan *plan);
/* A lower bound of the mean bytes of a host, for every division of the layers. If it exceeds the
 * limit of a host, no division meets the limit. */
double joint_mean_host_bytes(const struct search *search, const struct plan *plan);

/* A kind of node: a node of this kind has ranks[stage] ranks of each stage. */
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
