/* exec/ops/range.h - a range of indices, and the overlap of two. */
#ifndef EXEC_OPS_RANGE_H
#define EXEC_OPS_RANGE_H

#include <stddef.h>

/* [from, to); empty when they are equal. */
struct range {
    size_t from, to;
};

/* The overlap of both; { 0, 0 } when there is none. */
struct range range_overlap(struct range a, struct range b);
size_t range_count(struct range range);

#endif
