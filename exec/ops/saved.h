/* exec/ops/saved.h - the memory in which the forward of a piece (layer, embedding or head) keeps
 * values for its backward.
 *
 * Each value that an op of the list keeps has a slot. Recompute moves values from the kept block,
 * which lives from forward to backward, to the replayed block, which lives while one piece runs.
 * Live values (op_value.is_live), which exist only while their microbatch is at the loss, have no
 * slot but memory of their own. */
#ifndef EXEC_OPS_SAVED_H
#define EXEC_OPS_SAVED_H

#include "base/arena.h"
#include "models/recompute.h"

#include <stddef.h>

/* What a piece keeps between forward and backward. */
enum keeping {
    KEEP_ALL,
    KEEP_SOME,    /* selective recompute: the values that models/recompute.h keeps */
    KEEP_INPUT,   /* full recompute */
    KEEP_NOTHING, /* recomputed together with the layers before it, from the input of the first of
                   * them */
};

struct slot {
    size_t offset;
    bool is_there;
    bool is_replayed; /* true: in the replayed block; false: in the kept block */
};

struct saved_layout {
    struct slot *slots; /* [value] */
    size_t kept_bytes, replayed_bytes;
    size_t checkpoint; /* KEEP_INPUT: offset of the piece's input in the kept block */
};

/* Makes the layout of both blocks, in the arena. `replay` is used with KEEP_SOME.
 * `checkpoint_bytes` is the size of the piece's input. */
struct saved_layout saved_layout_of(const struct ops *forward, enum keeping keeping,
                                    const struct replay *replay, size_t checkpoint_bytes,
                                    struct arena *arena);

/* The two blocks of one piece and microbatch. */
struct saved {
    char *kept, *replayed;
};
/* The address of a value; NULL if the value has no slot. */
static inline void *saved_at(const struct saved *saved, struct slot slot)
{
    if (!slot.is_there)
        return NULL;
    return (slot.is_replayed ? saved->replayed : saved->kept) + slot.offset;
}

#endif
