/* exec/ops/machine.h - runs the op lists of a piece, forward and backward, on a device's streams.
 *
 * An op list (models/op.h) names, for each op, the values that the op reads and makes. Values that
 * the backward needs have a slot: an offset in a block of memory that is kept from forward to
 * backward. The list alone determines the order, the operands and the lifetimes. Tokens of a
 * microbatch are rows [sequence x seq + position]; with sequence parallelism each tensor rank has
 * an equal number of consecutive rows. */
#ifndef EXEC_OPS_MACHINE_H
#define EXEC_OPS_MACHINE_H

#include "exec/comm/comm.h"
#include "exec/device/kernels.h"
#include "exec/ops/op_log.h"
#include "exec/ops/saved.h"
#include "sim/plan/local.h"

struct piece;

enum { MAX_PIECE_OPS = 64 };

/* Data shared by the pieces of a rank. A piece is a layer, the embedding or the head. */
struct machine {
    const struct plan *plan;
    const struct model *model;
    struct layer_dims dims; /* this rank's sizes for a microbatch */
    const struct device_api *device_api;
    struct device *device;
    const struct kernel_api *kernel_api;
    struct kernels *kernels;
    const struct comm_api *comm_api;
    struct group *tensor; /* NULL: one tensor rank */
    int tensor_rank;
    struct stream *compute;
    struct stream *tensor_stream; /* the compute stream unless collectives overlap compute */
    struct event *computed;       /* event that other streams wait for */
    struct event *transferred[MAX_PIECE_OPS]; /* per op of a list: event that compute waits for */
    enum dtype storage;                       /* type of values between ops: fp32, bf16, fp16 */
    const float *rope_cos_sin;                /* cosines and sines of rotary positions */
    float norm_epsilon;
    uint64_t seed;
    float *loss_gradient_scale; /* on the device: loss scale / tokens of the global batch */
    double *loss;               /* summed over the rows of this rank's microbatches */
    void *late[8]; /* memory that the tensor stream may still read; freed when compute next waits
                      for that stream */
    int num_late;
    uint64_t taken;     /* hash of the addresses that machine_take returned since it was set to 0 */
    struct op_log *log; /* borrowed; NULL: op times are not recorded */
    struct err err;     /* the first failure, which is always lack of memory */
};

/* Device memory for work issued on compute from now on. NULL for 0 bytes, and after a failure,
 * which is kept in err and stops all issued work. With NULL the caller issues nothing. */
void *machine_take(struct machine *machine, size_t bytes);
/* Accepts NULL. */
void machine_give_back(struct machine *machine, void *memory);
/* The bytes of `count` values as they are stored. */
size_t machine_bytes(const struct machine *machine, double count);
enum element machine_element(const struct machine *machine);
/* Makes later work on `stream` wait for all compute issued so far, so that the work may reuse that
 * compute's memory. */
void machine_follow(struct machine *machine, struct stream *stream);
/* Bytes of this rank's rows of the residual stream, which layers and stages pass on. */
size_t machine_stream_bytes(const struct machine *machine);

/* The tokens of a microbatch, and its position in the global batch, in device memory. */
struct microbatch {
    const int64_t *ids, *targets; /* [sequences x seq] */
    const struct draw_place *place;
};

/* The data of one microbatch in one piece, from its forward to the end of its backward. */
struct record {
    struct saved saved;
    void *values[MAX_VALUES]; /* memory of values without a slot; NULL: no memory */
};

/* Runs the piece's forward. Its inputs are `input`, the output of the previous piece (NULL: none),
 * and the values in the record that other pieces made (ops.aside). The memory of these inputs is
 * freed. Returns the value for the next piece, device memory that the caller then owns; NULL: there
 * is none. */
void *machine_forward(struct machine *machine, const struct piece *piece,
                      const struct microbatch *microbatch, struct record *record, void *input);

/* Selective recompute: recomputes the ops that piece->is_again names. They read kept values and
 * write to the replayed block, the memory of recomputed values (exec/ops/saved.h). */
void machine_replay(struct machine *machine, const struct piece *piece,
                    const struct microbatch *microbatch, struct record *record);

/* Computes the gradients of inputs and weights, or only one of these kinds. If the kinds are
 * computed by two calls, the call for input gradients comes first. The argument is the gradient of
 * the output, and the result is the gradient of the input. Both are NULL when only weight gradients
 * are computed. Gradients of values that other pieces made are left in the record for the caller to
 * take; after the weight gradients the record is otherwise empty. */
enum gradients { GRADIENTS_ALL, GRADIENTS_OF_INPUTS, GRADIENTS_OF_WEIGHTS };
void *machine_backward(struct machine *machine, const struct piece *piece,
                       const struct microbatch *microbatch, struct record *record,
                       void *output_gradient, enum gradients gradients);

#endif
