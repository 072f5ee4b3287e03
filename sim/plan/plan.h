/* sim/plan/plan.h - a plan says how a training step is split over ranks; it has a canonical text.
 *
 * Equal texts mean equal plans. plan_parse reads words in any order and leaves absent words at
 * their defaults. plan_write prints words in canonical order and omits defaults. A parsed plan may
 * be infeasible: plan_check checks it against model, batch and GPUs. */
#ifndef SIM_PLAN_PLAN_H
#define SIM_PLAN_PLAN_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "models/model.h"
#include "models/op.h"
#include "models/precision.h"
#include "models/recompute.h"
#include "sim/exchange/exchange.h"
#include "sim/schedule/placement.h"

#include <limits.h>
#include <stdbool.h>

enum optimizer {
    OPTIMIZER_ADAM,
    OPTIMIZER_ADAM_BF16,
    OPTIMIZER_ADAM_8BIT,
    OPTIMIZER_MOMENTUM,
    OPTIMIZER_SGD,
    OPTIMIZER_ADAFACTOR,
    OPTIMIZER_MUON,
    NUM_OPTIMIZERS
};
enum recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE,
    RECOMPUTE_FULL,
    RECOMPUTE_EVERY,
    RECOMPUTE_BLOCK,
    RECOMPUTE_SHARE
};
enum plan_attention { PLAN_ATTENTION_DEFAULT, PLAN_ATTENTION_FLASH, PLAN_ATTENTION_UNFUSED };
enum context_comm {
    CONTEXT_COMM_P2P,
    CONTEXT_COMM_ALL_GATHER,
    CONTEXT_COMM_ALL_TO_ALL,
    NUM_CONTEXT_COMMS
};
/* Indices of the axes (sim/plan/axis.h) that the code refers to by name. A new axis needs no name
 * here. */
enum axis_id {
    AXIS_TENSOR,
    AXIS_CONTEXT,
    AXIS_EXPERT,
    AXIS_PIPELINE,
    AXIS_DATA,
    NUM_NAMED_AXES,
    MAX_AXES = 6
};
enum plan_overlap {
    PLAN_OVERLAP_GRAD,
    PLAN_OVERLAP_PARAM,
    PLAN_OVERLAP_P2P,
    PLAN_OVERLAP_TP,
    PLAN_OVERLAP_EP,
    PLAN_OVERLAP_SHARED,
    NUM_PLAN_OVERLAPS
};
/* How often ZeRO-3 gathers parameters and ZeRO-2 and 3 reduce gradients in a pipeline. STEP: both
 * once a step; parameters stay gathered and gradients whole in between. PASS: parameters are
 * gathered for each pass. GRADIENT: gradients are also reduced after each backward. */
enum reshard_rule { RESHARD_EACH_STEP, RESHARD_EACH_PASS, RESHARD_EACH_GRADIENT };
/* Where modules that predict later tokens are: in the head's chunk, or in the chunk before it; the
 * head's chunk then has no blocks (Megatron Core's layouts "...tmL" and "...tm|L"). */
enum mtp_place { MTP_BESIDE, MTP_APART, NUM_MTP_PLACES };
enum offload { OFFLOAD_OPTIMIZER, OFFLOAD_ACTIVATIONS, NUM_OFFLOADS };

/* Names of each enum's values, indexed by the enum and NULL-terminated. */
extern const char *const optimizer_names[];
extern const char *const recompute_names[];
extern const char *const attention_words[];
extern const char *const context_comm_words[];
extern const char *const overlap_words[];
extern const char *const offload_names[];

struct plan {
    union {
        /* ranks along each axis; dp is 0 after parsing if the text does not give it */
        int degree[MAX_AXES];
        struct {
            int tp, cp, ep, pp, dp, further_degrees[MAX_AXES - NUM_NAMED_AXES];
        };
    };
    int etp; /* tensor ranks of each expert */
    int vpp; /* chunks per stage */
    /* the number of rows that each expert gets from each rank, in hundredths of the mean: further
     * rows are dropped, fewer rows are padded to it; 0: an expert takes all rows */
    int capacity;
    int microbatch; /* sequences */
    bool sp;
    int zero;          /* 0-3 */
    int shard;         /* data and context ranks that ZeRO shards over; 0: all of them */
    int reshard;       /* enum reshard_rule */
    char schedule[16]; /* name of the schedule; "" is 1f1b, or interleaved when vpp > 1 */
    /* The rule that places the schedule's chunks; NULL: all rounds go down. For DualPipe, which
     * holds two mirrored copies of the model, it is that of one copy, NULL. plan_set_schedule sets
     * `schedule` and `placement`. */
    const struct placement_rule *placement;
    int recompute; /* enum recompute */
    /* selective recompute: bit set of enum replayed; 0: attention's core */
    unsigned replays;
    /* selective recompute of different modules on each stage: one bit set of enum replayed for all
     * stages or one per stage, 0: nothing is repeated there; NULL: all stages repeat `replays` */
    const int *stage_replays;
    int num_stage_replays;
    int recompute_every; /* K of full:K */
    /* recompute=block: how many of a chunk's layers are recomputed, from its first on; one number
     * for all chunks or one per chunk */
    const int *recompute_layers;
    int num_recompute_layers;
    /* recompute=block-share: the share of a chunk's layers that is recomputed, from its first on;
     * the number of layers is rounded */
    double recompute_share;
    /* stages=: layers of each chunk; NULL: all chunks have the same number */
    const int *chunk_layers;
    int num_chunk_layers;
    int mtp_place; /* enum mtp_place */
    /* number of modules for later tokens that stages= names; 0: stages= names none. plan_write does
     * not write this number */
    int stage_modules;
    int attention;    /* enum plan_attention */
    int context_comm; /* enum context_comm: how context ranks share keys */
    int precision;    /* enum precision */
    /* enum dtype: fp32 or the type of the precision; if the text has none, fp32, or bf16 for
     * bf16-pure */
    int gradient_dtype;
    /* enum dtype of the data-parallel reduction; if the text has none, gradient_dtype */
    int reduce_dtype;
    int optimizer;            /* enum optimizer */
    struct exchange exchange; /* how data ranks exchange gradients; all 0: all-reduce */
    bool overlaps_given;
    unsigned overlaps; /* bit set of enum plan_overlap, as the text gives it */
    unsigned offloads; /* bit set of enum offload */
    /* indices of `axes`, fastest first; Megatron's order is tp cp ep dp pp. ep has no ranks of
     * its own and always stands right before dp */
    int order[MAX_AXES];
};

/* The plan with every field at its default: one GPU, microbatch 1, bf16 with fp32 gradients and
 * reduction. */
struct plan plan_default(void);

/* Parses a layout's text; arrays live in the arena. An error's `where` is the word at fault; for an
 * unknown word the message names the nearest known one. sim/plan/tokens.h lists the words. */
bool plan_parse(const char *text, struct arena *arena, struct plan *out, struct err *err);
/* Writes tp, pp, dp and mb always, and the other words where they differ from the default. */
void plan_write(const struct plan *plan, struct text *out);
/* Writes the modules that selective recompute repeats, in the words of recompute=. */
void plan_write_replays(unsigned replays, struct text *out);
/* Writes recompute= of a plan with selective recompute, without "recompute=". */
void plan_write_selective(const struct plan *plan, struct text *out);
bool plan_equal(const struct plan *a, const struct plan *b);

static inline int plan_chunks(const struct plan *plan)
{
    long long chunks = (long long)plan->pp * plan->vpp;
    return chunks < INT_MAX ? (int)chunks : INT_MAX;
}
/* the schedule's name, also if the plan has the default */
const char *plan_schedule(const struct plan *plan);
void plan_set_schedule(struct plan *plan, const char *name); /* "" sets the default */
/* Sets the kind of recompute and clears its modules, its group size and its layers per chunk. */
void plan_set_recompute(struct plan *plan, enum recompute recompute);
void plan_set_even(struct plan *plan); /* gives every chunk the same number of layers */
static inline struct placement plan_placement(const struct plan *plan)
{
    return (struct placement){ plan->pp, plan->vpp, plan->placement };
}
/* The chunk with the modules that predict later tokens. */
static inline int plan_later_chunk(const struct plan *plan)
{
    return plan_chunks(plan) - 1 - (plan->mtp_place == MTP_APART);
}
static inline int plan_later_stage(const struct plan *plan)
{
    return placement_stage(plan_placement(plan), plan_later_chunk(plan));
}
/* Whether a plan with the model and this pp may place the modules for later tokens in the chunk
 * before the head's. It is a necessary condition: plan_check also requires that this chunk is not
 * on the embedding's stage and that the head's chunk has no layers. */
static inline bool plan_may_place_apart(const struct plan *plan, const struct model *model)
{
    return model->mtp > 0 && plan->pp > 1;
}
/* Whether a chunk has the embedding, the head or modules that predict later tokens. */
static inline bool plan_has_end(const struct plan *plan, int chunk)
{
    return placement_has_end(plan_placement(plan), chunk) ||
           (plan->mtp_place == MTP_APART && chunk == plan_later_chunk(plan));
}
/* Microbatches per pipeline and step, rounded down; and the number of layers of a chunk. */
int plan_microbatches(const struct plan *plan, double global_batch);
int plan_chunk_layers(const struct plan *plan, const struct model *model, int chunk);
bool plan_offloads(const struct plan *plan, enum offload what);
/* Whether stage_replays gives the modules that selective recompute repeats, for each stage or once
 * for all stages. */
static inline bool plan_lists_parts(const struct plan *plan)
{
    return plan->stage_replays && plan->recompute == RECOMPUTE_SELECTIVE;
}
/* Whether stages may repeat different modules. */
static inline bool plan_mixes_parts(const struct plan *plan)
{
    return plan_lists_parts(plan) && plan->num_stage_replays > 1;
}
/* Whether all chunks have the same number of layers and the same recompute. */
static inline bool plan_is_even(const struct plan *plan)
{
    return !plan->chunk_layers && plan->num_recompute_layers <= 1 && !plan_mixes_parts(plan);
}
/* The modules of a layer that selective recompute repeats on at least one stage: a bit set of enum
 * replayed. */
unsigned plan_replays(const struct plan *plan);
/* The plan in which all stages recompute what this stage recomputes. */
struct plan plan_of_stage(const struct plan *plan, int stage);
/* The modules that selective recompute can repeat in the model's blocks. */
unsigned plan_possible_replays(const struct model *model);
/* Whether all stages repeat attention's core. */
bool plan_replays_core(const struct plan *plan);
/* The number of layers, of the chunk's `layers`, that the backward recomputes in full. */
int plan_recomputed_layers(const struct plan *plan, int chunk, int layers);

/* Bytes per parameter before sharding: weights, main gradients, optimizer (master weights and
 * moments). */
struct state_bytes {
    double weights, gradients, optimizer;
    /* replaces `optimizer` for the matrices of blocks if plan_matrices_apart */
    double matrix_optimizer;
};
/* Whether the optimizer treats the matrices of blocks separately and needs them unsharded
 * (Muon). */
bool plan_matrices_apart(const struct plan *plan);
/* whether fp32 master weights are kept in addition to 16-bit weights */
bool plan_state_has_master(const struct plan *plan);
/* whether 4 of the optimizer's bytes hold an fp32 copy of a gradient */
bool plan_state_widens(const struct plan *plan);
struct state_bytes plan_state_bytes(const struct plan *plan, const struct model *model);

/* Bytes of one uncompressed element of the plan's exchange: a gradient in the reduction's type, or
 * a weight in the optimizer's. */
double plan_exchange_bytes(const struct plan *plan);

/* A plan, and the model, batch and GPUs against which it is checked. */
struct plan_case {
    const struct plan *plan;
    const struct model *model; /* its seq is the run's sequence length */
    double global_batch;       /* sequences */
    int num_gpus;
};

/* A constraint that a plan can break; `name` is its key under "infeasible_by". Rules are checked in
 * order, so a rule may assume that the earlier ones hold. */
struct plan_rule {
    const char *name;    /* "tensor_heads" */
    const char *summary; /* one sentence */
    bool (*holds)(const struct plan_case *of, struct err *err);
};
/* Rules by number: first those of all degrees, then those of each axis, then those of the other
 * words. */
int plan_num_rules(void);
const struct plan_rule *plan_rule_at(int number);
int plan_rule_number(const struct plan_rule *rule);

/* Whether the rule reads ZeRO's stage or what is recomputed. Such a rule can give different answers
 * for plans that differ only in these. */
bool plan_rule_reads_state(const struct plan_rule *rule);
/* the rule about the state that data ranks may shard */
const struct plan_rule *plan_shard_rule(void);

/* The first rule that the plan breaks, or NULL. The error is ERR_INFEASIBLE; its `where` is the
 * layout's word and its message names the value found and the value needed. dp must have been
 * derived. */
const struct plan_rule *plan_check(const struct plan *plan, const struct model *model,
                                   double global_batch, int num_gpus, struct err *err);

/* The rules in three consecutive groups. Plans that differ only in words that a group does not read
 * need only one check of that group. */
enum rule_group {
    RULES_OF_BLOCK, /* rules that read neither pp's chunks nor ZeRO's stage nor what is recomputed
                     */
    RULES_OF_SPLIT, /* rules that read neither ZeRO's stage nor what is recomputed */
    RULES_OF_STATE,
    NUM_RULE_GROUPS
};
/* The first rule of the group that the plan breaks, or NULL. The earlier groups must hold. */
const struct plan_rule *plan_check_group(const struct plan *plan, const struct model *model,
                                         double global_batch, int num_gpus, enum rule_group group,
                                         struct err *err);

#endif
