/* sim/plan/context.h - how context ranks bring queries and keys together, one row per method.
 *
 * Every rank holds two of 2 cp slices of a sequence, one from each end (zig-zag), so that under a
 * causal mask all ranks compute the same number of scores. A method replaces the attention core of
 * a rank's list, which stands between two context marks, by ops of the group. */
#ifndef SIM_PLAN_CONTEXT_H
#define SIM_PLAN_CONTEXT_H

#include "models/layer.h"
#include "sim/plan/share.h"

/* An attention core: the kernel and the marks around it, forward or backward. */
struct context_core {
    const struct op *enter, *attention, *leave;
    int cp;
    double key_bytes; /* bytes of keys and values of a rank's own tokens */
    short *same_as;   /* same_as[value]: the value that replaces one that no op makes any more */
};

struct context_method {
    const char *name; /* of cp-comm=: "p2p" */
    const char *summary;
    const char *source;
    /* Checks what it requires beyond an even split of the sequence; NULL: nothing more. */
    bool (*holds)(const struct plan_case *of, struct err *err);
    /* Adds the core as the ranks run it, MAX_LOWERED_OPS (axis.h) at most, after what `out` has. */
    void (*lower)(const struct context_core *core, struct ops *out);
    /* Buffer bytes held while a core runs, beside what its ops keep, from the query bytes and the
     * key-and-value bytes of a rank's own tokens. */
    double (*buffer_bytes)(int cp, double query_bytes, double key_bytes);
};
extern const struct context_method context_methods[NUM_CONTEXT_COMMS]; /* by enum context_comm */

/* Bytes that a rank holds for other ranks' tokens while it runs an attention core; `dims` are its
 * own. 0 at cp 1. */
double context_buffer_bytes(struct rank_share share, const struct layer_dims *dims,
                            double element_bytes);

#endif
