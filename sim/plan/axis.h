/* sim/plan/axis.h - the ways a step can be split, one row each.
 *
 * An axis says what its degree divides and which marks of a layer's op list become its collectives.
 * Add yours to `axes` in axes.c: layout, space, flags and docs follow. */
#ifndef SIM_PLAN_AXIS_H
#define SIM_PLAN_AXIS_H

#include "models/layer.h"
#include "sim/plan/share.h"

struct axis {
    enum axis_id id;
    const char *name;    /* the layout token: "tp" */
    const char *summary; /* one sentence */
    const char *source;
    int (*degree)(const struct plan *plan);
    /* Divides the sizes that one rank handles; NULL: divides none of them. */
    void (*shard)(struct rank_share share, const struct model *model, struct layer_dims *dims);
    /* Replaces a mark by this axis' collective, or drops it (false). NULL: owns no mark,
     * or several ops at once (context.h). */
    bool (*lower)(struct rank_share share, struct op *op);
};
extern const struct axis axes[NUM_AXES]; /* indexed by enum axis_id */

/* Vocabulary rows that a rank group of `tp` holds together: a multiple of 128 tp (Megatron). */
double padded_vocab(const struct model *model, int tp);

#endif
