/* exec/machine.h - runs the op lists of a piece, forward and backward, on a device's streams.
 *
 * The lists are the program: an op reads and makes the values that it names, and what it names as
 * kept has a slot; nothing but the list says what runs in which order, what reads what, and how
 * long it is there. Tokens of a microbatch are rows [sequence x seq + position]; under sequence
 * parallelism a tensor rank has an equal share of neighbouring rows. */
#ifndef EXEC_MACHINE_H
#define EXEC_MACHINE_H

#include "exec/comm.h"
#include "exec/kernels.h"
#include "exec/op_log.h"
#include "exec/saved.h"
#include "sim/plan/local.h"

struct piece;

enum { MAX_PIECE_OPS = 64 };

/* What the pieces of a rank have in common. */
struct machine {
    const struct plan *plan;
    const struct model *model;
    struct layer_dims dims; /* this rank's, of a microbatch */
    const struct device_api *device_api;
    struct device *device;
    const struct kernel_api *kernel_api;
    struct kernels *kernels;
    const struct comm_api *comm_api;
    struct group *tensor; /* NULL: one tensor rank */
    int tensor_rank;
    struct stream *compute;
    struct stream *tensor_stream; /* compute itself unless collectives overlap with it */
    struct event *computed;       /* what other streams wait for */
    struct event *transferred[MAX_PIECE_OPS]; /* by op of a list: what compute waits for */
    enum dtype storage;                       /* of values that ops hand on: fp32, bf16, fp16 */
    const float *turns;                       /* of rotary positions */
    float norm_epsilon;
    uint64_t seed;
    float *loss_gradient_scale; /* on the device: loss scale over the tokens of the global batch */
    double *loss;               /* summed over the rows of this rank's microbatches */
    void *late[8];              /* memory that the tensor stream may still read: freed when compute
                                   next waits for it */
    int num_late;
    uint64_t taken;     /* a hash of what machine_take gave since this was set to 0 */
    struct op_log *log; /* borrowed; NULL: nobody asks when ops run */
    struct err err;     /* first failure: no memory */
};

/* Device memory for work that is issued on compute from now on. NULL for no bytes, and after a
 * failure, which is kept in err: then nothing that was issued runs. Whoever gets NULL issues
 * nothing with it. */
void *machine_take(struct machine *machine, size_t bytes);
/* Accepts NULL. */
void machine_give_back(struct machine *machine, void *memory);
/* The bytes of `count` values as they are stored. */
size_t machine_bytes(const struct machine *machine, double count);
enum element machine_element(const struct machine *machine);
/* Later work on `stream` runs after the work that compute has been given so far, so that it may
 * take over memory of compute's. */
void machine_follow(struct machine *machine, struct stream *stream);
/* The bytes of this rank's rows of the residual stream, which layers and stages hand on. */
size_t machine_stream_bytes(const struct machine *machine);

/* Rows of a microbatch, and where they are in the global batch: all on the device. */
struct microbatch {
    const int64_t *ids, *targets; /* [sequences x seq] */
    const struct draw_place *place;
};

/* What there is of one microbatch in one piece, from its forward to the end of its backward. */
struct record {
    struct saved saved;
    void *values[MAX_VALUES]; /* memory of their own, of those that have no slot; NULL: none */
};

/* Takes the value that the list has from the one before (NULL: none), and those in the record that
 * it has from others (ops.aside), whose memory it frees, and returns that for the one behind:
 * device memory of the caller, NULL where there is none. */
void *machine_forward(struct machine *machine, const struct piece *piece,
                      const struct microbatch *microbatch, struct record *record, void *input);

/* The attention core again, into the replayed block, from what was kept of its inputs. */
void machine_replay_core(struct machine *machine, const struct piece *piece,
                         const struct microbatch *microbatch, struct record *record);

/* Runs the ops of both gradients, or those of one of them, inputs' first; takes the gradient of the
 * output (NULL where there is none, and for weights alone) and returns that of the input
 * (likewise); those of what came from other lists are in the record, for the caller to take. The
 * record is else empty after the weights'. */
enum gradients { GRADIENTS_ALL, GRADIENTS_OF_INPUTS, GRADIENTS_OF_WEIGHTS };
void *machine_backward(struct machine *machine, const struct piece *piece,
                       const struct microbatch *microbatch, struct record *record,
                       void *output_gradient, enum gradients gradients);

#endif
