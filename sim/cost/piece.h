/* sim/cost/piece.h - seconds and bytes of a piece (a layer, the embedding or the head) on one rank,
 * for one microbatch.
 *
 * Everything is computed from the op lists of sim/plan/local. A list's time is its makespan over
 * the compute stream and one communication stream per axis. */
#ifndef SIM_COST_PIECE_H
#define SIM_COST_PIECE_H

#include "sim/collective/collective.h"
#include "sim/cost/hardware.h"
#include "sim/cost/list_cost.h"
#include "sim/cost/muon.h"
#include "sim/cost/recompute_cost.h"
#include "sim/cost/stage_weights.h"
#include "sim/exchange/exchange.h"
#include "sim/plan/axis.h"
#include "sim/plan/holding.h"
#include "sim/plan/local.h"
#include "sim/schedule/schedule.h"

enum { MAX_PIECE_TENSORS = MAX_WEIGHTS };

struct piece_cost {
    struct list_cost forward;
    struct list_cost backward; /* if the schedule splits the backward: only the input gradients */
    struct list_cost weight;   /* weight gradients if the schedule splits the backward, else 0 */
    struct list_cost again;    /* the ops of the forward that full recompute repeats */
    struct list_cost replay;   /* the ops of the forward that selective recompute repeats */
    double saved_bytes;        /* activations kept from forward to backward without recompute */
    double replayed_bytes;     /* the part of saved_bytes that selective recompute frees */
    double waiting_bytes; /* kept between the halves of a split backward: operands of the weight
                             products */
    double moment_bytes;  /* largest number of bytes that a backward holds at once in addition to
                             saved_bytes */
    /* moment_bytes with selective recompute, in addition to saved_bytes - replayed_bytes */
    double replayed_moment_bytes;
    /* largest number of bytes that the gradients of one op's output and input take at once */
    double working_bytes;
    double input_bytes; /* the piece's input, which full recompute keeps as a checkpoint */
    double parameters;  /* number of parameters on one rank */
    double of_experts;  /* the part of `parameters` that belongs to experts */
    /* the parts of `parameters` and `of_experts` that have gradients */
    struct stage_weights trained;
    /* empty unless matrices have a separate optimizer (plan_matrices_apart) */
    struct held_matrices matrices;
    /* number of tensors with gradients that the software handles one by one; each expert has
     * separate tensors if the host launches each expert's products */
    double host_tensors;
    int num_tensors; /* number of tensors with gradients, one for all experts of the rank */
    const struct exchange_tensor *tensors;
};

/* The costs of a plan's pieces, and quantities that the pieces share. */
struct pieces {
    /* one layer of each kind of block, the embedding, the head ... (enum in sim/plan/holding.h) */
    struct piece_cost at[NUM_PIECES];
    int num_kinds;
    double tokens; /* of one microbatch on one rank, before sequence parallelism divides them */
    double logits; /* number of logits of one microbatch on one tensor and context rank */
    double logits_block_bytes; /* further bytes while the head computes logits in row blocks; 0: all
                                at once */
    double context_buffer_bytes; /* buffers for other ranks' tokens while an attention core runs */
};

/* The properties of a plan on which the pieces' costs depend, except the links between ranks
 * (piece_wires). The struct has only ints and no padding, so equal values have equal bytes. */
struct piece_question {
    struct rank_share share;
    int attention;       /* enum attention_kernel */
    int precision;       /* enum precision */
    int gradient_dtype;  /* enum dtype */
    int overlaps_tensor; /* 0 or 1: the tensor group's collectives overlap compute */
    int shared_beside;   /* 0 or 1: the shared expert overlaps the exchanges of rows */
    int replays;         /* bit set of enum replayed: what selective recompute repeats */
    int splits;          /* 0 or 1: the backward is split into two lists */
    int matrices_apart;  /* 0 or 1: matrices of blocks have a separate optimizer */
};
/* The question of a plan; `generator` is the plan's schedule. */
struct piece_question piece_question_of(const struct system *system, const struct plan *plan,
                                        const struct generator *generator);

/* The placement of the groups that communicate. On a given system the groups' links depend only on
 * it and on the groups' sizes. The struct has only ints. */
struct piece_places {
    int num_ranks;
    int stride[MAX_AXES][MAX_AXIS_GROUPS]; /* 0: the group has one rank */
};
struct piece_places piece_places_of(const struct plan *plan);

/* The links of the groups along each axis. If num_ranks is 1, no other field of a group is set. */
struct piece_wires {
    struct comm_group group[MAX_AXES][MAX_AXIS_GROUPS];
    struct comm_group pair[MAX_AXES]; /* links of neighbours on an axis that sends messages */
};
struct piece_wires piece_wires_of(const struct system *system, const struct plan *plan);
bool piece_wires_are_alike(const struct piece_wires *a, const struct piece_wires *b);

/* Whether the model has the piece. */
bool piece_is_there(const struct model *model, int piece);
/* The cost of one piece. It depends on the plan only through `question` and `wires`, and not on the
 * system's number of GPUs or on their memory. The arena keeps the tensors. */
struct piece_cost piece_answer(const struct system *system, const struct model *model,
                               const struct piece_question *question,
                               const struct piece_wires *wires, int piece, struct arena *arena);
/* Sets all members of the question and all links that do not affect this piece to fixed values. If
 * the results are equal, the costs of that piece are equal: blocks do not depend on which stages
 * hold the embedding tables, and pieces without experts do not depend on how experts are divided.
 */
struct piece_question piece_question_narrowed(const struct piece_question *question,
                                              const struct model *model, int piece);
struct piece_wires piece_wires_narrowed(const struct piece_wires *wires,
                                        const struct piece_question *narrow);
/* Joins the costs of the pieces that the model has. */
struct pieces pieces_join(const struct system *system, const struct model *model,
                          const struct piece_question *question,
                          const struct piece_cost costs[NUM_PIECES]);
/* piece_answer for all pieces. */
struct pieces pieces_answer(const struct system *system, const struct model *model,
                            const struct piece_question *question, const struct piece_wires *wires,
                            struct arena *arena);
/* For each kind of block, the data from which the cost of selective recompute of any set of modules
 * is computed. They hold for all questions that differ only in `replays`. */
struct pieces_sources {
    struct list_timer list;
    struct replay_source at[NUM_PIECES];
    bool is_there[NUM_PIECES]; /* blocks have a source, the embedding and the head have none */
};
/* Builds these sources, in the arena. */
const struct pieces_sources *pieces_sources_of(const struct system *system,
                                               const struct model *model,
                                               const struct piece_question *question,
                                               const struct piece_wires *wires,
                                               struct arena *arena);
/* The pieces of a question that differs from that of `pieces` only in `replays`, which must not be
 * REPLAYS_PER_OP. Blocks equal those of pieces_answer. REPLAYS_LEANEST gives a bound for all sets
 * of modules: it frees the most bytes that any set frees, its backward has the lowest peak of any
 * set, and recompute takes no time. */
struct pieces pieces_replaying(const struct model *model, const struct pieces *pieces,
                               const struct pieces_sources *sources, unsigned replays);
/* replayed_bytes and replayed_moment_bytes of pieces_replaying for all sets of the model's modules.
 * In the arena. */
struct set_bytes {
    double freed, moment;
};
struct pieces_sets {
    struct replay_sets all;
    const struct set_bytes *of[NUM_PIECES]; /* [set]; NULL: the piece is no block */
};
const struct pieces_sets *pieces_sets_of(const struct model *model,
                                         const struct pieces_sources *sources, struct arena *arena);
/* pieces_answer for the question and the links of a plan. */
struct pieces pieces_cost(const struct system *system, const struct model *model,
                          const struct plan *plan, struct arena *arena);

/* The cost of op lists that belong to no model. `input_bytes` is the size of the piece's input.
 * Temporary data are in the arena. */
struct piece_cost lists_cost(const struct system *system, const struct plan *plan,
                             struct local_ops lists, double input_bytes, struct arena *arena);

/* Per kind of op: the number that all ranks run in a step, and their total time if each runs alone.
 * It is compared with measured runs. */
struct kind_totals {
    double count[NUM_OP_KINDS], seconds[NUM_OP_KINDS];
};
struct kind_totals plan_kind_totals(const struct system *system, const struct model *model,
                                    const struct plan *plan);

/* Maximum number of rows of logits computed at once; 0: all. With a split backward it is 0, as the
 * logits' gradients are read twice. */
double plan_logits_rows(const struct plan *plan, const struct stack *stack);
/* Bytes held per logit at the loss: the stack's number, at least the bytes of a value in the plan's
 * precision. */
double plan_logit_bytes(const struct plan *plan, const struct stack *stack);

/* The options with which op lists are made, from stack and plan. */
struct layer_options plan_layer_options(const struct plan *plan, const struct system *system);

/* Whether the plan's collectives of a kind overlap compute: the plan's setting if it has one, else
 * the stack's. */
bool plan_overlaps(const struct plan *plan, const struct stack *stack, enum overlap overlap);
/* Number of copies of a quantised operand: two, with scales along rows and along columns, or one.
 * One copy is enough if the GPU can read it both ways (Blackwell) and all its values share one
 * scale. */
int quantized_copies(const struct gpu *gpu, const struct recipe *recipe);
/* The attention kernel that the plan runs on this system. */
enum attention_kernel plan_attention_kernel(const struct plan *plan, const struct system *system);

#endif
