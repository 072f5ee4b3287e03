/* exec/run/rank_state.h - the state of a rank, shared by the sources of this folder. */
#ifndef EXEC_RUN_RANK_STATE_H
#define EXEC_RUN_RANK_STATE_H

#include "exec/comm/groups.h"
#include "exec/exchange/exchanger.h"
#include "exec/feed.h"
#include "exec/loss_spike.h"
#include "exec/pass_graphs.h"
#include "exec/run/run_setup.h"
#include "kernels/host/loss_scale.h"

#include <stdatomic.h>

/* Memory that a stream other than compute may read until an instruction is done. */
struct borrowed_buffer {
    void *at;
    struct event *until;
    int passes; /* passes that compute has issued since the memory was lent */
};

/* The values that a microbatch passes between chunks, in device memory; NULL: not there. */
struct messages {
    void *input, *output; /* input and output of the forward */
    void *output_gradient, *input_gradient;
};

struct step_readback {
    double loss, squares[2]; /* values copied from the device at the end of a step */
};

struct rank {
    struct run_setup setup;
    struct rank_device on;
    struct arena arena;
    struct machine machine;
    struct groups groups;
    struct coordinates at;
    int stage;
    const struct instrs *list;
    struct stream *streams[NUM_ALL_LANES]; /* NULL: the plan has no such lane */
    struct event **done;                   /* [instruction] */
    const char **names;                    /* names of instructions, for the watchdog */
    /* pinned: [lane] the number of the latest arrival (the begin or end of an instruction,
     * lane_status.c) that its stream has reached; NULL: no watchdog */
    _Atomic uint32_t *arrivals;
    uint32_t arrivals_seen[NUM_ALL_LANES];
    struct data_lane data;
    struct chunk *chunks;       /* [vpp] */
    struct pass_graphs *graphs; /* NULL: passes are issued op by op */
    int num_microbatches;
    struct store *stores;
    int num_stores;
    struct store **all_stores;
    struct feed feed;
    struct chunk_record *records; /* [rank_round x microbatches + microbatch] */
    struct messages *messages;    /* [rank_round x microbatches + microbatch] */
    struct exchange_groups exchange_groups;
    struct chunk_exchange *exchanges; /* [vpp]; NULL if data ranks use all-reduce */
    struct kernels *exchange_kernels; /* kernels for fp32, whatever the storage type */
    struct event *exchanged;
    struct borrowed_buffer *borrowed;
    int num_borrowed;
    double *loss,
        *squares; /* in device memory; squares: the sum over all ranks, then this rank's own sum */
    float *scale;
    float loss_gradient_scale;      /* this step's value, copied to the machine */
    struct step_readback *readback; /* pinned: values read back at the end of a step */
    struct loss_scale loss_scale;   /* for runs in fp16 */
    long skipped;                   /* number of steps in which gradients overflowed */
    float peak_rate;                /* setup.update.rate is the rate of the current step */
    struct spike_watch spikes;
    long steps_begun;   /* steps begun by this process */
    double signalled_s; /* time at which the rank last signalled to the others that it is still
                           working */
};

/* The link that a message takes. */
enum group_kind rank_link(const struct instr *instr);

/* A chunk's index among this rank's chunks; `chunk` is its index in the model. */
static inline int rank_round(const struct rank *rank, int chunk)
{
    return placement_round(plan_placement(rank->setup.plan), chunk);
}

/* Whether the last backward reduces gradients piece by piece. With hostile ranks it does not,
 * because false gradients replace the true ones only after all of them are computed. */
bool rank_reduces_pieces(const struct rank *rank);

/* The rank's group of this kind, or NULL if the rank is alone in it. */
struct group *rank_group(const struct rank *rank, enum group_kind kind);

#endif
