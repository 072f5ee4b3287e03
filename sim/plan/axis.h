/* sim/plan/axis.h - the ways a step can be split, one row each.
 *
 * An axis says what its degree divides and which marks of a layer's op list become its collectives.
 * Add yours to `axes` in axes.c: layout, space, flags and docs follow. */
#ifndef SIM_PLAN_AXIS_H
#define SIM_PLAN_AXIS_H

#include "models/layer.h"
#include "sim/plan/share.h"

#define MARK(kind) (1ull << (kind))
enum { MAX_LOWERED_OPS = 8 };

struct axis {
    enum axis_id id;
    const char *name;    /* the layout token: "tp" */
    const char *summary; /* one sentence */
    const char *source;
    int (*degree)(const struct plan *plan);
    /* Divides sizes among ranks; NULL: divides none. */
    void (*shard)(struct rank_share share, const struct model *model, struct layer_dims *dims);
    unsigned long long marks; /* set of MARK(enum op_kind): the marks that become its collectives */
    /* Number of ops from a mark on that are lowered together; NULL: the mark alone. */
    int (*span)(struct rank_share share, const struct ops *ops, int i);
    /* Adds the ops that the ranks run in place of those to `out`, MAX_LOWERED_OPS at most; false:
     * none, the mark is dropped. same_as[value]: the value that replaces one that no op makes any
     * more. NULL: the axis owns no mark. */
    bool (*lower)(struct rank_share share, struct ops span, struct ops *out, short *same_as);
};
extern const struct axis axes[NUM_AXES]; /* indexed by enum axis_id */

/* Vocabulary rows that a rank group of `tp` holds together: a multiple of 128 tp (Megatron). */
double padded_vocab(const struct model *model, int tp);

#endif
