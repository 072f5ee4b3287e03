/* sim/plan/context.h - how context ranks bring queries and keys together, one row each.
 *
 * Every rank holds two of 2 cp slices of a sequence, one from each end (zig-zag), so that under a
 * causal mask all ranks have as many scores to compute. A method turns the attention core of one
 * rank's list, which stands between two context marks, into what the ranks do together. */
#ifndef SIM_PLAN_CONTEXT_H
#define SIM_PLAN_CONTEXT_H

#include "models/layer.h"
#include "sim/plan/share.h"

/* An attention core: the kernel and the marks around it, forward or backward. */
struct context_core {
    const struct op *enter, *attention, *leave;
    int cp;
    double key_bytes; /* of the keys and values of a rank's own tokens */
    short *same_as;   /* by value of the list: what it is from now on, where no op makes it */
};

struct context_method {
    const char *name; /* of cp-comm=: "p2p" */
    const char *summary;
    const char *source;
    /* What it asks for beside an even split of the sequence; NULL: nothing. */
    bool (*holds)(const struct plan_case *of, struct err *err);
    /* Adds the core as the ranks run it, MAX_LOWERED_OPS (axis.h) at most, after what `out` has. */
    void (*lower)(const struct context_core *core, struct ops *out);
    /* Held while a core runs, beside what its ops keep; of query and of key and value bytes of a
     * rank's own tokens. */
    double (*buffer_bytes)(int cp, double query_bytes, double key_bytes);
};
extern const struct context_method context_methods[NUM_CONTEXT_COMMS]; /* by enum context_comm */

/* Bytes that a rank holds for others' tokens while it runs an attention core; `dims` are its own.
 * Nothing at cp 1. */
double context_buffer_bytes(struct rank_share share, const struct layer_dims *dims,
                            double element_bytes);

#endif
