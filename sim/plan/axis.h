/* sim/plan/axis.h - the ways a step can be split, one row each.
 *
 * A row owns the axis' words in a layout, its rules, the degrees that a search tries, what its
 * ranks divide and hold, the marks of a layer's op list that become its collectives, and the groups
 * that run these. Yours is a file with a row, and a line in axes.c: the grammar, the rank order,
 * grids and groups, the costs, the spaces of searches, help and docs follow.
 *
 * Not in a row, since they are about several axes, or are no axis' degree:
 * - words that say how a plan runs and not over how many ranks (mb, vpp, sp, zero, schedule ...)
 *   and their rules: their place in a layout's text and among the rules is fixed (tokens.c,
 * rules.c);
 * - the data axis takes the ranks that all others leave, in the job's grid and in the experts';
 * - etp and its values: a word of the expert axis, searched as 1 or as tp (search/space.c);
 * - names of groups in the executor, which are by use and not by axis (exec/comm/groups.h); it
 *   refuses degrees of axes that it cannot run (exec/supported.c);
 * - keys of answers and of data files, and settings of other frameworks, which have names of their
 *   own for the axes they know. */
#ifndef SIM_PLAN_AXIS_H
#define SIM_PLAN_AXIS_H

#include "models/layer.h"
#include "sim/plan/members.h"
#include "sim/plan/share.h"
#include "sim/plan/token.h"

#define MARK(kind) (1ull << (kind))
enum { MAX_LOWERED_OPS = 8, MAX_AXIS_GROUPS = 2 };

/* The question on which the degrees that a search tries depend. */
struct axis_case {
    const struct model *model;
    int num_gpus;
    const struct plan *base;
    bool splits_attention; /* the attention kernel can have its sequence divided */
};

struct axis {
    const char *name;    /* the word of its degree: "tp" */
    const char *summary; /* one sentence */
    const char *source;
    int place; /* in the default rank order: the axis of the lowest place has neighbouring ranks */
    bool is_folded; /* its ranks are among those of other axes: it has none in the job's grid */
    /* Its ranks hold the same weights: they sum gradients and may shard state. */
    bool is_replicated;

    const struct plan_token *words; /* the first has its degree; in canonical order */
    int num_words;
    const struct plan_rule *rules;
    int num_rules;
    /* The next degree above `degree` that a search tries; 0: no more. NULL: it follows from the
     * others. The first is asked for with 0. */
    int (*next_degree)(const struct axis_case *of, int degree);

    /* Ranks among those of a layer's experts (plan_expert_grid); NULL: 1. */
    int (*expert_degree)(const struct plan *plan);

    /* Divides sizes among ranks; NULL: divides none. */
    void (*shard)(struct rank_share share, const struct model *model, struct layer_dims *dims);
    unsigned long long marks; /* set of MARK(enum op_kind): the marks that become its collectives */
    /* Number of ops from a mark on that are lowered together; NULL: the mark alone. */
    int (*span)(struct rank_share share, const struct ops *ops, int i);
    /* Adds the ops that the ranks run in place of those to `out`, MAX_LOWERED_OPS at most; false:
     * none, the mark is dropped. same_as[value]: the value that replaces one that no op makes any
     * more. NULL: the axis owns no mark. */
    bool (*lower)(struct rank_share share, struct ops span, struct ops *out, short *same_as);
    /* The groups that run its collectives; returns their number. NULL: one, along the axis. */
    int (*groups)(const struct plan *plan, struct members groups[MAX_AXIS_GROUPS]);
    int (*group_of)(struct rank_share share, const struct op *op); /* NULL: the first */
    bool sends_messages; /* neighbours in the first group exchange messages too */
};
extern const struct axis *const axes[];
extern const int num_axes; /* at most MAX_AXES */

/* The next divisor of n above d, or 0. */
int next_divisor(int n, int d);

/* The stream of an axis' ops, and the axis of a stream; no axis owns the compute stream. */
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

/* Sets of axes, a bit each: those whose ranks hold the same weights, and those whose do not. */
unsigned replicated_axes(void);
unsigned model_axes(void);

/* Vocabulary rows that a rank group of `tp` holds together: a multiple of 128 tp (Megatron). */
double padded_vocab(const struct model *model, int tp);

#endif
