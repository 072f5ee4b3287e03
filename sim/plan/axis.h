/* sim/plan/axis.h - a table of the axes over which a training step is split: tensor, data, pipeline
 * and others. */
#ifndef SIM_PLAN_AXIS_H
#define SIM_PLAN_AXIS_H

#include "models/layer.h"
#include "sim/plan/members.h"
#include "sim/plan/share.h"
#include "sim/plan/token.h"

#define MARK(kind) (1ull << (kind))
enum { MAX_LOWERED_OPS = 8, MAX_AXIS_GROUPS = 2 };

/* The inputs of a search; the degrees that it tries depend on them. */
struct axis_case {
    const struct model *model;
    int num_gpus;
    const struct plan *base;
    bool splits_attention; /* whether the attention kernel can work on a part of the sequence */
};

struct axis {
    const char *name;    /* the word that sets its degree, such as "tp" */
    const char *summary; /* one sentence */
    const char *source;
    /* place in the default rank order; ranks along the axis of the lowest place are adjacent */
    int place;
    bool is_folded; /* whether it only reuses ranks of other axes, as ep does */
    /* Whether its ranks hold the same weights. They then sum gradients and may shard the training
     * state. */
    bool is_replicated;

    const struct plan_token *words; /* in canonical order; the first word sets the degree */
    int num_words;
    const struct plan_rule *rules;
    int num_rules;
    /* The next degree above `degree` that a search tries; 0: no more. The first call passes 0. NULL
     * if the degree follows from those of the other axes. */
    int (*next_degree)(const struct axis_case *of, int degree);

    /* The axis' degree in the grid of a layer's experts (plan_expert_grid); NULL: 1. */
    int (*expert_degree)(const struct plan *plan);

    /* Divides a layer's sizes among ranks; NULL if the axis divides none. */
    void (*shard)(struct rank_share share, const struct model *model, struct layer_dims *dims);
    /* bit set of MARK(enum op_kind): the marks (ops that stand where ranks communicate) that its
     * collectives replace */
    unsigned long long marks;
    /* Number of ops, from the mark at `i` on, that `lower` replaces together; NULL: only the
     * mark. */
    int (*span)(struct rank_share share, const struct ops *ops, int i);
    /* Adds the ops that replace `ops` to `out`, at most MAX_LOWERED_OPS; false: none, the mark is
     * dropped. If a value is no longer computed, same_as[value] names its replacement. NULL if the
     * axis has no mark. */
    bool (*lower)(struct rank_share share, struct ops span, struct ops *out, short *same_as);
    /* The groups that run its collectives; returns their number. NULL: one group, all ranks along
     * the axis. */
    int (*groups)(const struct plan *plan, struct members groups[MAX_AXIS_GROUPS]);
    /* index of the group that runs `op`; NULL: always the first */
    int (*group_of)(struct rank_share share, const struct op *op);
    bool sends_messages; /* neighbours in the first group also exchange point-to-point messages */
};
extern const struct axis *const axes[];
extern const int num_axes; /* at most MAX_AXES */

/* The smallest divisor of n above d; 0 if there is none. */
int next_divisor(int n, int d);

/* The stream on which an axis' collectives run, and the axis of a stream. The compute stream
 * belongs to no axis. */
static inline enum op_stream axis_stream(int axis)
{
    return (enum op_stream)(STREAM_COMPUTE + 1 + axis);
}
static inline int stream_axis(enum op_stream stream)
{
    return (int)stream - STREAM_COMPUTE - 1;
}
_Static_assert((int)STREAM_TENSOR == 1 + AXIS_TENSOR && (int)STREAM_CONTEXT == 1 + AXIS_CONTEXT &&
                   (int)STREAM_EXPERT == 1 + AXIS_EXPERT,
               "streams are in the order of the axes");

/* Bit sets of axes: those whose ranks hold the same weights, and the others. */
unsigned replicated_axes(void);
unsigned model_axes(void);

/* Vocabulary rows of all `tp` tensor ranks, padded to a multiple of 128 tp as in Megatron. */
double padded_vocab(const struct model *model, int tp);

#endif
