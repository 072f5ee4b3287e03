/* exec/range.h - a run of indices, and what two of them share. */
#ifndef EXEC_RANGE_H
#define EXEC_RANGE_H

#include <stddef.h>

/* From `from` up to but without `to`; empty when they are equal. */
struct range {
    size_t from, to;
};

/* What lies in both; { 0, 0 } when nothing does. */
struct range range_overlap(struct range a, struct range b);
size_t range_count(struct range range);

#endif
