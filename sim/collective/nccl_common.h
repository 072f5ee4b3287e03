/* sim/collective/nccl_common.h - shared parts of the algorithms of collective.h: NCCL's formulas
 * and constants that several of them use, and the functions in the table of collectives.c.
 *
 * Source: NCCL 2.30.7 src/graph/tuning.cc (ncclTopoTuneModel and its constants tables), which
 * counts in us and in GB/s of 1e9 bytes. Names in [brackets] are NCCL's. */
#ifndef SIM_COLLECTIVE_NCCL_COMMON_H
#define SIM_COLLECTIVE_NCCL_COMMON_H

#include "sim/collective/collective.h"

/* A published constant, in NCCL's unit. */
#define US(value)       ((value)*1e-6)
#define GB_PER_S(value) ((value)*1e9)

enum { NUM_INTRA_LINKS = LINK_PCI + 1 };

/* The bandwidth ceilings of the group's GPU generation. */
const struct nccl_rates *nccl_rates(const struct comm_group *group);

/* Row of NCCL's tables. 0: one node, 1: two nodes, 2: more nodes [index2]. */
int nccl_node_class(const struct comm_group *group);

/* The number of ranks on the node with the most, for which the others wait. NCCL divides the ranks
 * by the nodes and drops the remainder, which differs only for unevenly spread groups. */
int nccl_ranks_per_node(const struct comm_group *group);

/* floor(log2(value)), value >= 1 [log2i]. */
int nccl_floor_log2(int value);

/* Number of sends of a rank in a ring [nsteps]. */
double nccl_ring_steps(const struct comm_group *group, enum collective collective);

/* Bandwidth of all channels together, before the protocol's overhead [nChannels * bw]. */
double nccl_bus_bytes_per_s(const struct comm_group *group);

/* The largest bandwidth of the LL protocol over all channels [llMaxBws]. */
double nccl_ll_max_bytes_per_s(const struct comm_group *group);

/* The additional latency of a message between nodes whose receiver is on another rail: it first
 * goes over NVLink to the GPU next to the network card on that rail (PXN, since NCCL 2.12). NCCL's
 * own model leaves it out. */
double nccl_rail_latency_s(const struct comm_group *group, enum protocol protocol);

/* Time of a network hop for an algorithm whose table gives `own_latency_s`. With one rank per node
 * the latency is fully exposed, and NCCL uses the tree's latency for every algorithm [interLat].
 * NCCL adds the latency that the NIC's driver reports; here that is part of the calibrated
 * latency_factor. nccl_rail_latency_s is included. */
double nccl_net_latency_s(const struct comm_group *group, enum protocol protocol,
                          double own_latency_s);

extern const double nccl_tree_net_latency_s[NUM_PROTOCOLS];

/* Whether the network's switches can run this collective: reductions always; all-gathers and
 * reduce-scatters only if each rank of a node has a network card [ncclCollNet->iallgather,
 * nHeads]. */
bool nccl_sharp_serves(const struct comm_group *group, enum collective collective);

bool ring_available(const struct comm_group *group, enum collective collective,
                    enum protocol protocol);
void ring_cost(const struct comm_group *group, enum collective collective, enum protocol protocol,
               double message_bytes, double *latency_s, double *bytes_per_s);

bool tree_available(const struct comm_group *group, enum collective collective,
                    enum protocol protocol);
void tree_cost(const struct comm_group *group, enum collective collective, enum protocol protocol,
               double message_bytes, double *latency_s, double *bytes_per_s);

bool collnet_direct_available(const struct comm_group *group, enum collective collective,
                              enum protocol protocol);
void collnet_direct_cost(const struct comm_group *group, enum collective collective,
                         enum protocol protocol, double message_bytes, double *latency_s,
                         double *bytes_per_s);

bool collnet_chain_available(const struct comm_group *group, enum collective collective,
                             enum protocol protocol);
void collnet_chain_cost(const struct comm_group *group, enum collective collective,
                        enum protocol protocol, double message_bytes, double *latency_s,
                        double *bytes_per_s);

bool nvls_available(const struct comm_group *group, enum collective collective,
                    enum protocol protocol);
void nvls_cost(const struct comm_group *group, enum collective collective, enum protocol protocol,
               double message_bytes, double *latency_s, double *bytes_per_s);
double nvls_reached(const struct comm_group *group, enum collective collective);

bool nvls_tree_available(const struct comm_group *group, enum collective collective,
                         enum protocol protocol);
void nvls_tree_cost(const struct comm_group *group, enum collective collective,
                    enum protocol protocol, double message_bytes, double *latency_s,
                    double *bytes_per_s);

bool pat_available(const struct comm_group *group, enum collective collective,
                   enum protocol protocol);
void pat_cost(const struct comm_group *group, enum collective collective, enum protocol protocol,
              double message_bytes, double *latency_s, double *bytes_per_s);

#endif
