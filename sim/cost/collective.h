/* sim/cost/collective.h - time of a collective over one group of ranks, as NCCL would run it.
 *
 * The algorithms, protocols, latencies and bandwidth caps are NCCL 2.30.7's own cost model
 * (src/graph/tuning.cc): the model chooses the algorithm, and its time times a calibrated factor is
 * the prediction. Every function is pure: same arguments, same bits, any thread. */
#ifndef SIM_COST_COLLECTIVE_H
#define SIM_COST_COLLECTIVE_H

#include "sim/cost/generation.h"

#include <stdbool.h>

enum collective {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_BROADCAST,
    NUM_COLLECTIVES
};
extern const char *const collective_names[NUM_COLLECTIVES + 1]; /* "all_reduce" ... */
enum protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, NUM_PROTOCOLS };
enum intra_link { LINK_NVLINK, LINK_PCI };

struct curve;

/* What NCCL's topology search knows of a group, the same for all collectives. Ranks are spread over
 * the nodes as evenly as possible. A bandwidth must be positive if it is read. `intra` is read for
 * up to two nodes (NCCL's search gives such a group one rate, so over two nodes it is the
 * network's), `inter` for more nodes and for sends across nodes, `nvls` if nvls_channels > 0. */
struct comm_group {
    int num_ranks; /* up to 1e8 */
    int num_nodes; /* 1 to num_ranks */
    enum gpu_arch arch;
    enum intra_link intra;
    bool amd_cpu;
    bool ll128;         /* links that keep 128-byte stores atomic: NVLink inside, PXB/PXN outside */
    bool in_network;    /* NVSwitch multicast (NVLS) within the node */
    bool crosses_rails; /* hops between nodes first take NVLink to the receiver's rail (PXN) */
    bool sharp;         /* switches between nodes reduce, and NCCL is told to use them */
    int num_channels;   /* of ring and tree */
    double link_bytes_per_s;                               /* of a GPU's links inside a node */
    double intra_bytes_per_s;                              /* of one channel inside a node */
    double inter_bytes_per_s;                              /* of one channel between nodes */
    int nvls_channels;                                     /* 0: none */
    double nvls_intra_bytes_per_s, nvls_inter_bytes_per_s; /* of one NVLS channel */
    /* Calibrated: measured time = latency part x latency_factor + size part / bandwidth_factor.
     * bandwidth_factor > 0; latency_factor 0 drops the latency part. */
    double bandwidth_factor, latency_factor;
    double expert_wait_s; /* of an all-to-all of experts' rows, beside its messages */
    /* Borrowed; NULL: not measured. Within its measured sizes a curve replaces the model; beyond
     * them the model is scaled to meet the curve's end. */
    const struct curve *curves[NUM_COLLECTIVES];
    const struct curve *message_curve; /* the same for a send and its receive */
};

/* Whether both groups are wired alike, so that each call takes the same time on both. Compares
 * every member. */
bool comm_groups_are_alike(const struct comm_group *a, const struct comm_group *b);

/* One algorithm. Add yours to `collective_algos` in collectives.c; `list collectives` and the laws
 * in tests find it there. */
struct collective_algo {
    const char *name; /* "ring" */
    const char *summary;
    const char *source; /* where the formula comes from */
    /* Whether NCCL would consider it for this group, collective and protocol. */
    bool (*available)(const struct comm_group *group, enum collective collective,
                      enum protocol protocol);
    /* Its start-up time in seconds and its algorithm bandwidth (message / time) in bytes/s, for
     * `message_bytes` in all (all-gather and reduce-scatter: of the gathered buffer). */
    void (*cost)(const struct comm_group *group, enum collective collective, enum protocol protocol,
                 double message_bytes, double *latency_s, double *bytes_per_s);
    /* The share of that bandwidth that is really reached, where NCCL's model is known to be too
     * optimistic. NCCL chooses without it, so only the calibrated time uses it. NULL: all. */
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

/* What NCCL would pick; ties go to the first in `collective_algos`. For one rank or no bytes the
 * time is 0 and algo is NULL. */
struct collective_choice collective_choose(const struct comm_group *group,
                                           enum collective collective, double message_bytes);

/* Seconds by the measured curve, or else the calibrated time of the algorithm that NCCL would
 * pick. */
double collective_s(const struct comm_group *group, enum collective collective,
                    double message_bytes);

/* Calibrated seconds of one send and its receive between the two neighbours that `group` describes
 * (a pipeline boundary), over all its channels: at inter_bytes_per_s if it has two nodes, else at
 * intra_bytes_per_s. 0 for no bytes or one rank. */
double point_to_point_s(const struct comm_group *group, double message_bytes);

/* Calibrated seconds of an all-to-all in which each rank sends `message_bytes` in all, its part for
 * itself included. 0 for no bytes or one rank. */
double all_to_all_s(const struct comm_group *group, double message_bytes);

#endif
