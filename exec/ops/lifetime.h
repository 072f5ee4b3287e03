/* exec/ops/lifetime.h - how long the values of the op lists (sequences of operations) of a piece
 * (layer, embedding or head) live, derived from the ops that read them. */
#ifndef EXEC_OPS_LIFETIME_H
#define EXEC_OPS_LIFETIME_H

#include "sim/plan/local.h"

/* Per value: index of the last op that reads it, or -1. */
struct last_reader {
    short of[MAX_VALUES];
};

struct lifetimes {
    struct last_reader forward, backward;
    struct last_reader halves; /* last readers in a backward that runs all input gradients first */
    bool is_kept[MAX_VALUES];  /* kept from forward to backward */
    short place[MAX_VALUES];   /* per value: the last value that in-place ops make in its memory;
                                  without in-place ops, the value itself */
};

struct lifetimes lifetimes_of(const struct local_ops *ops);
/* For each value, its last reader among the ops that selective recompute runs again
 * (`is_again`). */
struct last_reader last_reader_again(const struct ops *list, const bool *is_again);

#endif
