/* sim/plan/plan.h - how a training step is split over ranks: a value with a canonical text.
 *
 * Equal texts mean equal plans. plan_parse reads the grammar in any order and leaves what is absent
 * at its default; plan_write prints the canonical order, defaults left out. A parsed plan may be
 * infeasible: plan_check checks it against model, batch and GPUs. */
#ifndef SIM_PLAN_PLAN_H
#define SIM_PLAN_PLAN_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "models/model.h"
#include "models/op.h"
#include "models/precision.h"
#include "models/replay.h"
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
/* Indices of `axes` (sim/plan/axis.h) that are named here and there; a further row needs no name.
 */
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
    NUM_PLAN_OVERLAPS
};
/* With a pipeline, how often ZeRO-3 gathers and ZeRO-2 and 3 reduce: once a step, keeping
 * parameters gathered and gradients whole in between; gathering for each pass; and reducing behind
 * each backward too. */
enum reshard_rule { RESHARD_EACH_STEP, RESHARD_EACH_PASS, RESHARD_EACH_GRADIENT };
enum offload { OFFLOAD_OPTIMIZER, OFFLOAD_ACTIVATIONS, NUM_OFFLOADS };

/* The words of each enum, indexed by it, NULL-terminated. */
extern const char *const optimizer_names[];
extern const char *const recompute_names[];
extern const char *const attention_words[];
extern const char *const context_comm_words[];
extern const char *const overlap_words[];
extern const char *const offload_names[];

struct plan {
    union {
        int degree[MAX_AXES]; /* ranks of each of `axes`; dp is 0 in a parsed text: to be derived */
        struct {
            int tp, cp, ep, pp, dp, further_degrees[MAX_AXES - NUM_NAMED_AXES];
        };
    };
    int etp;      /* tensor ranks of each expert */
    int vpp;      /* chunks per stage */
    int capacity; /* hundredths of the mean that an expert takes of a rank's rows, padded to it; 0:
                     all that come */
    int microbatch; /* sequences */
    bool sp;
    int zero;          /* 0-3 */
    int shard;         /* data and context ranks that ZeRO shards over; 0: all of them */
    int reshard;       /* enum reshard_rule */
    char schedule[16]; /* generator name; "" = 1f1b, or interleaved when vpp > 1 */
    /* The schedule's, of one copy where it mirrors the model; plan_set_schedule sets both. */
    const struct placement_rule *placement;
    int recompute;               /* enum recompute */
    unsigned replays;            /* selective: bit set of enum replayed; 0: attention's core */
    int recompute_every;         /* full:K */
    const int *recompute_layers; /* block: first N layers of each chunk; one number for all chunks,
                                    or one per chunk */
    int num_recompute_layers;
    double recompute_share;  /* block-share: of each chunk's layers, rounded, the first ones */
    const int *chunk_layers; /* stages=: layers of each chunk; NULL: even */
    int num_chunk_layers;
    int stage_modules;  /* modules for later tokens that stages= places beside the head; 0: it does
                           not say how many. Not in the text, as they are always there */
    int attention;      /* enum plan_attention */
    int context_comm;   /* enum context_comm: how context ranks share keys */
    int precision;      /* enum precision */
    int gradient_dtype; /* enum dtype: fp32 (absent: bf16-pure has bf16) or the precision's own */
    int reduce_dtype;   /* enum dtype of the data-parallel reduction; absent: as gradient_dtype */
    int optimizer;      /* enum optimizer */
    struct exchange exchange; /* how data ranks exchange gradients; all 0: all-reduce */
    bool overlaps_given;
    unsigned overlaps;   /* bit set of enum plan_overlap, where the text gives it */
    unsigned offloads;   /* bit set of enum offload */
    int order[MAX_AXES]; /* indices of `axes`, fastest first; Megatron's: tp cp ep dp pp. ep has no
                            ranks of its own and stands right before dp, whatever the text says */
};

/* Every part at its default: one GPU, microbatch 1, bf16 with fp32 gradients and reduction. */
struct plan plan_default(void);

/* Layout text -> plan; arrays live in the arena. where = the token; unknown words get the nearest.
 * The words are in sim/plan/tokens.h. */
bool plan_parse(const char *text, struct arena *arena, struct plan *out, struct err *err);
/* tp, pp, dp and mb always; the rest where it differs from the default. */
void plan_write(const struct plan *plan, struct text *out);
/* Writes the words of recompute= that name what selective recompute repeats. */
void plan_write_replays(unsigned replays, struct text *out);
bool plan_equal(const struct plan *a, const struct plan *b);

static inline int plan_chunks(const struct plan *plan)
{
    long long chunks = (long long)plan->pp * plan->vpp;
    return chunks < INT_MAX ? (int)chunks : INT_MAX;
}
const char *plan_schedule(const struct plan *plan); /* the generator's name, default resolved */
void plan_set_schedule(struct plan *plan, const char *name); /* "": the default */
/* Recompute of this kind with nothing else said of it: no parts, groups or layers of chunks. */
void plan_set_recompute(struct plan *plan, enum recompute recompute);
void plan_set_even(struct plan *plan); /* every chunk the same number of layers */
static inline struct placement plan_placement(const struct plan *plan)
{
    return (struct placement){ plan->pp, plan->vpp, plan->placement };
}
/* Microbatches per pipeline and step, rounded down; then the layers of a chunk. */
int plan_microbatches(const struct plan *plan, double global_batch);
int plan_chunk_layers(const struct plan *plan, const struct model *model, int chunk);
bool plan_offloads(const struct plan *plan, enum offload what);
/* Whether all chunks have, and recompute, the same number of layers. */
static inline bool plan_is_even(const struct plan *plan)
{
    return !plan->chunk_layers && plan->num_recompute_layers <= 1;
}
/* What selective recompute repeats of a layer: a bit set of enum replayed. */
static inline unsigned plan_replays(const struct plan *plan)
{
    return plan->replays ? plan->replays : REPLAYS_CORE;
}
static inline bool plan_replays_core(const struct plan *plan)
{
    return plan->recompute == RECOMPUTE_SELECTIVE && (plan_replays(plan) & REPLAYS_CORE) != 0;
}
/* How many of the chunk's `layers` the backward recomputes in full. */
int plan_recomputed_layers(const struct plan *plan, int chunk, int layers);

/* Bytes kept for each parameter, unsharded: weights, main gradients, optimizer (master, moments).
 */
struct state_bytes {
    double weights, gradients, optimizer;
    double matrix_optimizer; /* instead of optimizer, of what plan_matrices_apart names */
};
/* Whether matrices of blocks have another optimizer than everything else, which needs them whole.
 */
bool plan_matrices_apart(const struct plan *plan);
bool plan_state_has_master(const struct plan *plan); /* fp32 weights beside those of 16 bits */
bool plan_state_widens(const struct plan *plan);     /* the optimizer's 4 bytes hold gradients */
struct state_bytes plan_state_bytes(const struct plan *plan, const struct model *model);

/* Bytes of one uncompressed element of the plan's exchange: a gradient in the reduction's type, or
 * a weight in the optimizer's. */
double plan_exchange_bytes(const struct plan *plan);

/* A plan, and what it is checked against. */
struct plan_case {
    const struct plan *plan;
    const struct model *model; /* its seq is that of the run */
    double global_batch;       /* sequences */
    int num_gpus;
};

/* A constraint that a plan can break; `name` is its key under "infeasible_by". They are checked in
 * order, so a rule may rely on those before it. */
struct plan_rule {
    const char *name;    /* "tensor_heads" */
    const char *summary; /* one sentence */
    bool (*holds)(const struct plan_case *of, struct err *err);
};
/* By number, in that order: degrees, then the axes' own, then those of the other words. */
int plan_num_rules(void);
const struct plan_rule *plan_rule_at(int number);
int plan_rule_number(const struct plan_rule *rule);

/* Whether it reads ZeRO's stage or what is recomputed: then a plan may break it, and one that
 * differs in these alone may not. */
bool plan_rule_reads_state(const struct plan_rule *rule);
const struct plan_rule *plan_shard_rule(void); /* what state the data ranks may shard */

/* The first rule that the plan breaks (ERR_INFEASIBLE, where = the layout token, msg a sentence
 * with both values), or NULL. dp must have been derived. */
const struct plan_rule *plan_check(const struct plan *plan, const struct model *model,
                                   double global_batch, int num_gpus, struct err *err);

#endif
