/* sim/cost/piece.h - seconds and bytes of a layer, the embedding or the head on one rank, for one
 * microbatch.
 *
 * Everything is computed from the op lists of sim/plan/local. A list's time is its makespan over
 * the compute, tensor and context streams. */
#ifndef SIM_COST_PIECE_H
#define SIM_COST_PIECE_H

#include "sim/cost/collective.h"
#include "sim/cost/hardware.h"
#include "sim/cost/muon.h"
#include "sim/cost/stage_weights.h"
#include "sim/exchange/exchange.h"
#include "sim/plan/axis.h"
#include "sim/plan/holding.h"
#include "sim/plan/local.h"
#include "sim/schedule/schedule.h"

/* One list, run once while the host launches ahead of the GPU: total = compute + exposed comm. */
struct list_cost {
    double total_s;
    double compute_s;
    double comm_s;      /* exposed: not beside compute */
    double context_s;   /* the context group's part of comm_s */
    double expert_s;    /* the expert groups' part of comm_s */
    double attention_s; /* of compute: flash attention's */
    double kernels;     /* launches by the host, which set a floor on the time of several lists */
    double flops;
};

enum { MAX_PIECE_TENSORS = 48 };

struct piece_cost {
    struct list_cost forward;
    struct list_cost backward; /* input gradients alone when the schedule splits the backward */
    struct list_cost weight;   /* weight gradients then, else nothing */
    struct list_cost replay;   /* the ops of the forward that selective recompute repeats */
    double saved_bytes;        /* kept for the backward without recompute */
    double replayed_bytes;     /* the part that selective recompute frees */
    double waiting_bytes; /* kept between the halves of a split backward: operands of the weight
                             products */
    double moment_bytes;  /* most that a backward holds at once beside what is left of those kept */
    double replayed_moment_bytes; /* the same beside what selective recompute leaves of them */
    double working_bytes; /* most that an op's output and the gradient of its input take at once */
    double input_bytes;   /* the checkpoint at the piece's entrance */
    double parameters;    /* held by one rank */
    double of_experts;    /* the part of parameters that only the ranks of its experts share */
    struct stage_weights trained;  /* the part of both with gradients */
    struct held_matrices matrices; /* where the optimizer treats them apart */
    int num_tensors;               /* number of tensors with gradients */
    struct exchange_tensor tensors[MAX_PIECE_TENSORS];
};

/* The costs of a plan's pieces, and what they share. */
struct pieces {
    struct piece_cost at[NUM_PIECES]; /* one layer per kind of block, the embedding ... */
    int num_kinds;
    double tokens;           /* of one microbatch on one rank, before tensor ranks divide them */
    double logits;           /* number of logits of one microbatch on one tensor and context rank */
    double logits_run_bytes; /* further bytes while the head computes logits in row blocks; 0: all
                                at once */
    double context_buffer_bytes; /* buffers for other ranks' tokens while an attention core runs */
};

/* All that the pieces' costs depend on in a plan, except its wires. Only ints, without padding:
 * equal questions have equal bytes. */
struct piece_question {
    struct rank_share share;
    int attention;       /* enum attention_kernel */
    int precision;       /* enum precision */
    int gradient_dtype;  /* enum dtype */
    int overlaps_tensor; /* 0 or 1: the tensor group's collectives run beside compute */
    int replays;         /* bit set of enum replayed: what selective recompute repeats */
    int splits;          /* 0 or 1: the backward is split into two lists */
    int matrices_apart;  /* 0 or 1: the optimizer treats matrices of blocks apart */
};
/* `generator`: the plan's schedule. */
struct piece_question piece_question_of(const struct system *system, const struct plan *plan,
                                        const struct generator *generator);

/* The placement of the share's groups: all that their wires depend on in one system, beside their
 * sizes. Only ints. */
struct piece_places {
    int num_ranks;
    int stride[MAX_AXES][MAX_AXIS_GROUPS]; /* 0: of a group of one rank */
};
struct piece_places piece_places_of(const struct plan *plan);

/* By axis. num_ranks 1: nothing else is filled in. */
struct piece_wires {
    struct comm_group group[MAX_AXES][MAX_AXIS_GROUPS];
    struct comm_group pair[MAX_AXES]; /* of axes that send messages */
};
struct piece_wires piece_wires_of(const struct system *system, const struct plan *plan);
bool piece_wires_are_alike(const struct piece_wires *a, const struct piece_wires *b);

/* Depends on no plan, and on neither the system's number of GPUs nor their memory. Lists are built
 * in the arena. */
struct pieces pieces_answer(const struct system *system, const struct model *model,
                            const struct piece_question *question, const struct piece_wires *wires,
                            struct arena *arena);
/* The same for a plan. */
struct pieces pieces_cost(const struct system *system, const struct model *model,
                          const struct plan *plan, struct arena *arena);

/* The cost of given lists that belong to no model. `input_bytes` arrive from the piece before.
 * Temporaries are in the arena. */
struct piece_cost lists_cost(const struct system *system, const struct plan *plan,
                             struct local_ops lists, double input_bytes, struct arena *arena);

/* Per kind of op: how many all ranks run in a step, and their total time when each runs alone. A
 * measured run is compared with it kind by kind. */
struct kind_totals {
    double count[NUM_OP_KINDS], seconds[NUM_OP_KINDS];
};
struct kind_totals plan_kind_totals(const struct system *system, const struct model *model,
                                    const struct plan *plan);

/* Most rows of logits computed at once; 0: all. With a split backward it is all, as their gradients
 * are read twice. */
double plan_logits_rows(const struct plan *plan, const struct stack *stack);
/* Bytes per logit held at the loss: the stack's number, but at least a value of the plan's type. */
double plan_logit_bytes(const struct plan *plan, const struct stack *stack);

/* The op lists' options by stack and plan. */
struct layer_options plan_layer_options(const struct plan *plan, const struct system *system);

/* Whether the plan's collectives of a kind overlap compute: the plan's word, else the stack's. */
bool plan_overlaps(const struct plan *plan, const struct stack *stack, enum overlap overlap);
/* Copies of quantised operands, along rows and along columns. Blackwell reads either way, so one
 * copy is enough when both have the same scales. */
int quantized_copies(const struct gpu *gpu, const struct recipe *recipe);
/* The attention kernel that the plan runs on this system. */
enum attention_kernel plan_attention_kernel(const struct plan *plan, const struct system *system);

#endif
