/* sim/cost/piece.h - seconds and bytes of a layer, the embedding or the head on one rank, for one
 * microbatch.
 *
 * Everything is summed off the op lists of sim/plan/local. A list's time is its makespan over the
 * compute, the tensor and the context stream. */
#ifndef SIM_COST_PIECE_H
#define SIM_COST_PIECE_H

#include "sim/cost/collective.h"
#include "sim/cost/hardware.h"
#include "sim/exchange/exchange.h"
#include "sim/plan/holding.h"
#include "sim/plan/local.h"
#include "sim/schedule/schedule.h"

/* One list, run once on a GPU whose host is ahead of it: total = compute + exposed comm. */
struct list_cost {
    double total_s;
    double compute_s;
    double comm_s;      /* exposed: not beside compute */
    double context_s;   /* of which the context group's */
    double attention_s; /* of compute: flash attention's */
    double kernels;     /* that the host launches: a floor for longer stretches of lists */
    double flops;
};

enum { MAX_PIECE_TENSORS = 24 };

struct piece_cost {
    struct list_cost forward;
    struct list_cost backward; /* of input gradients alone when the schedule splits it */
    struct list_cost weight;   /* of weight gradients then, else nothing */
    struct list_cost replay;   /* of the forward, what selective recompute runs again */
    double saved_bytes;        /* kept for the backward without recompute */
    double replayed_bytes;     /* of which selective recompute frees */
    double waiting_bytes; /* kept between the halves of a split backward: what its products read */
    double moment_bytes;  /* most that a backward holds at once beside what is left of those kept */
    double working_bytes; /* most that an op's output and its input's gradient take at once */
    double input_bytes;   /* the checkpoint at the piece's entrance */
    double parameters;    /* held by one tensor rank */
    double frozen;        /* of which have no gradient */
    int num_tensors;      /* that the others are */
    struct exchange_tensor tensors[MAX_PIECE_TENSORS];
};

/* The pieces of a plan, and what they have in common. */
struct pieces {
    struct piece_cost
        at[NUM_PIECES]; /* a layer of each of the model's kinds, the embedding, the head */
    int num_kinds;
    double logits;           /* of one microbatch on one tensor and context rank */
    double logits_run_bytes; /* beside what is kept, while the head makes them a run of rows at a
                                time; 0: at once */
    double context_buffer_bytes; /* for others' tokens, while an attention core runs */
};

/* All that the pieces' costs read of a plan, but its wires. Of ints alone, without padding: equal
 * questions have equal bytes. */
struct piece_question {
    struct rank_share share;
    int attention;       /* enum attention_kernel */
    int precision;       /* enum precision */
    int gradient_dtype;  /* enum dtype */
    int overlaps_tensor; /* 0 or 1: the tensor group's collectives run beside compute */
    int replays;         /* bit set of enum replayed: what selective recompute runs again */
    int splits;          /* 0 or 1: the two halves of a backward are lists of their own */
};
/* `generator`: the plan's schedule. */
struct piece_question piece_question_of(const struct system *system, const struct plan *plan,
                                        const struct generator *generator);

/* Where the share's groups lie: all that their wires depend on in one system. Of ints alone. */
struct piece_places {
    int tensor_stride, context_stride, num_ranks;
};
struct piece_places piece_places_of(const struct plan *plan);
struct piece_wires {
    struct comm_group tensor, context, context_pair;
};
struct piece_wires piece_wires_of(const struct system *system, struct rank_share share,
                                  struct piece_places places);

/* Reads no plan, and of the system neither the GPUs in the job nor their memory. Lists are built in
 * the arena. */
struct pieces pieces_answer(const struct system *system, const struct model *model,
                            const struct piece_question *question, const struct piece_wires *wires,
                            struct arena *arena);
/* The same of a plan. */
struct pieces pieces_cost(const struct system *system, const struct model *model,
                          const struct plan *plan, struct arena *arena);

/* Of lists that no model has, with the weights that they name. `input_bytes` come from the piece
 * before. Temporaries are in the arena. */
struct piece_cost lists_cost(const struct system *system, const struct plan *plan,
                             struct local_ops lists, double input_bytes, struct arena *arena);

/* Ops of each kind that all ranks run in a step, and what each kind takes in all, every op alone: a
 * measured run is held against it kind by kind. */
struct kind_totals {
    double count[NUM_OP_KINDS], seconds[NUM_OP_KINDS];
};
struct kind_totals plan_kind_totals(const struct system *system, const struct model *model,
                                    const struct plan *plan);

/* Most rows of the head whose logits are made at once, 0: all. A split backward reads their
 * gradients twice, so that there all are. */
double plan_logits_rows(const struct plan *plan, const struct stack *stack);
/* Held for each logit at the loss: what the stack has, no less than a value as the plan stores it.
 */
double plan_logit_bytes(const struct plan *plan, const struct stack *stack);

/* Options of the op lists, as stack and plan have them. */
struct layer_options plan_layer_options(const struct plan *plan, const struct system *system);

/* Whether the plan's collectives of a kind run beside compute: its own word, else the stack's. */
bool plan_overlaps(const struct plan *plan, const struct stack *stack, enum overlap overlap);
/* Copies of what quantised products read, along rows and along columns: Blackwell multiplies either
 * way round, so one does where both have the same scale. */
int quantized_copies(const struct gpu *gpu, const struct recipe *recipe);
/* The attention kernel that the plan runs on this system. */
enum attention_kernel plan_attention_kernel(const struct plan *plan, const struct system *system);

#endif
