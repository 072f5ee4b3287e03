/* sim/collective/collective.h - time of a collective over one group of ranks, as NCCL would run it.
 *
 * The algorithms, protocols, latencies and bandwidth caps are NCCL 2.30.7's own cost model
 * (src/graph/tuning.cc): it chooses the algorithm, and the prediction is its time multiplied by a
 * calibrated factor. Every function is pure. */
#ifndef SIM_COLLECTIVE_COLLECTIVE_H
#define SIM_COLLECTIVE_COLLECTIVE_H

#include "sim/collective/generation.h"

#include <stdbool.h>

enum collective {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_BROADCAST,
    NUM_COLLECTIVES
};
extern const char *const collective_names[NUM_COLLECTIVES + 1]; /* such as "all_reduce" */
enum protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, NUM_PROTOCOLS };
enum intra_link { LINK_NVLINK, LINK_PCI };

struct curve;

/* The result of NCCL's topology search for a group; it is the same for all collectives. Ranks are
 * spread over the nodes as evenly as possible. The bandwidths that apply must be positive: the
 * intra-node bandwidth for one or two nodes (for two nodes NCCL's search sets it to the network's),
 * the inter-node bandwidth for more than two nodes and for sends between nodes, the NVLS bandwidths
 * if nvls_channels > 0. */
struct comm_group {
    int num_ranks; /* up to 1e8 */
    int num_nodes; /* 1 to num_ranks */
    enum gpu_arch arch;
    enum intra_link intra;
    bool amd_cpu;
    bool ll128;      /* links that keep 128-byte stores atomic: NVLink inside, PXB/PXN outside */
    bool in_network; /* NVSwitch multicast (NVLS) within the node */
    /* messages between nodes first go over NVLink to the GPU whose network card is on the
     * receiver's rail (PXN) */
    bool crosses_rails;
    bool sharp;               /* switches between nodes reduce, and NCCL is told to use them */
    int num_channels;         /* channels of ring and tree */
    double link_bytes_per_s;  /* all links of a GPU inside a node */
    double intra_bytes_per_s; /* one channel inside a node */
    double inter_bytes_per_s; /* one channel between nodes */
    /* for a group on one node with several CPU sockets: its ranks attached to one socket, and its
     * share of the bandwidth between sockets in one direction; else 0 */
    int socket_ranks;
    double socket_bytes_per_s;
    int nvls_channels;                                     /* 0: NVLS is not available */
    double nvls_intra_bytes_per_s, nvls_inter_bytes_per_s; /* one NVLS channel */
    /* Calibrated: measured time = latency part x latency_factor + size part / bandwidth_factor.
     * bandwidth_factor > 0; latency_factor 0 drops the latency part. */
    double bandwidth_factor, latency_factor;
    /* time that an all-to-all of experts' rows waits for late ranks, in addition to its messages */
    double expert_wait_s;
    /* Borrowed; NULL: not measured. Within its measured sizes a curve replaces the model; beyond
     * them the model is scaled to meet the curve's end. */
    const struct curve *curves[NUM_COLLECTIVES];
    const struct curve *message_curve; /* the measured curve of a send and its receive */
};

/* Whether both groups have the same links, so that each call takes the same time on both. It
 * compares every field. */
bool comm_groups_are_alike(const struct comm_group *a, const struct comm_group *b);

/* One algorithm. To add one, add a row to `collective_algos` in collectives.c; `list collectives`
 * and the tests read the table. */
struct collective_algo {
    const char *name; /* such as "ring" */
    const char *summary;
    const char *source; /* source of the formula */
    /* Whether NCCL would consider it for this group, collective and protocol. */
    bool (*available)(const struct comm_group *group, enum collective collective,
                      enum protocol protocol);
    /* Its start-up time in seconds and its algorithm bandwidth (message size / time) in bytes/s.
     * `message_bytes` is the size of the whole buffer, for all-gather and reduce-scatter the
     * gathered one. */
    void (*cost)(const struct comm_group *group, enum collective collective, enum protocol protocol,
                 double message_bytes, double *latency_s, double *bytes_per_s);
    /* The share of this bandwidth that measurements reach, where NCCL's model is known to be too
     * optimistic. NCCL chooses algorithms without it, so only the predicted time uses it. NULL:
     * 1. */
    double (*reached)(const struct comm_group *group, enum collective collective);
};
extern const struct collective_algo collective_algos[];
extern const int num_collective_algos;
const struct collective_algo *collective_algo_find(const char *name); /* NULL: unknown */

struct collective_choice {
    const struct collective_algo *algo;
    enum protocol protocol;
    double time_s; /* uncalibrated, as NCCL's tuner sees it */
    double latency_s;
    double bytes_per_s;
};

/* The algorithm and protocol that NCCL would choose. Of equally fast algorithms it is the first in
 * `collective_algos`. For one rank or no bytes the time is 0 and algo is NULL. */
struct collective_choice collective_choose(const struct comm_group *group,
                                           enum collective collective, double message_bytes);

/* Seconds of a collective: from the measured curve, or else the calibrated time of the algorithm
 * that NCCL would choose. */
double collective_s(const struct comm_group *group, enum collective collective,
                    double message_bytes);

/* Calibrated seconds of one send and its receive between the two neighbours that `group` describes
 * (a pipeline boundary), over all its channels: at inter_bytes_per_s if it has two nodes, else at
 * intra_bytes_per_s. 0 for no bytes or one rank. */
double point_to_point_s(const struct comm_group *group, double message_bytes);

/* Calibrated seconds of an all-to-all in which each rank sends `message_bytes` in total, including
 * the part for itself. 0 for no bytes or one rank. */
double all_to_all_s(const struct comm_group *group, double message_bytes);

#endif
