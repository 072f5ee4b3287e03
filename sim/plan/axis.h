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
    /* Divides the sizes that one rank handles; NULL: divides none of them. */
    void (*shard)(struct rank_share share, const struct model *model, struct layer_dims *dims);
    unsigned long long marks; /* set of MARK(enum op_kind): what becomes its collectives */
    /* How many ops, from a mark on, are lowered together; NULL: the mark alone. */
    int (*span)(struct rank_share share, const struct ops *ops, int i);
    /* Adds what the ranks do in place of those ops to `out`, MAX_LOWERED_OPS at most; false:
     * nothing does, the mark is left out. `same_as`, by value of the list: what it is from now on,
     * where no op makes it. NULL: owns no mark. */
    bool (*lower)(struct rank_share share, struct ops span, struct ops *out, short *same_as);
};
extern const struct axis axes[NUM_AXES]; /* indexed by enum axis_id */

/* Vocabulary rows that a rank group of `tp` holds together: a multiple of 128 tp (Megatron). */
double padded_vocab(const struct model *model, int tp);

#endif
