/* exec/lifetime.h - how long the values of a piece's lists are there, read off who reads them. */
#ifndef EXEC_LIFETIME_H
#define EXEC_LIFETIME_H

#include "sim/plan/local.h"

/* By value: index of the last op that reads it, or -1. */
struct last_reader {
    short of[MAX_VALUES];
};

struct lifetimes {
    struct last_reader forward, backward;
    struct last_reader halves; /* of a backward whose input gradients all run first */
    bool is_kept[MAX_VALUES];  /* from forward to backward */
    short place[MAX_VALUES];   /* the value in whose memory it is made, which may be itself: the
                                  last of those that ops change in place */
};

/* Whether what the op makes of its first operand lies where that was. */
bool op_is_in_place(const struct ops *list, const struct op *op);

struct lifetimes lifetimes_of(const struct local_ops *ops);

#endif
