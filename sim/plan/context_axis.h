/* sim/plan/context_axis.h - a table of the methods by which context ranks exchange keys, values or
 * heads.
 *
 * Every rank holds two of 2 cp slices of a sequence, one from each end (zig-zag), so that under a
 * causal mask all ranks compute the same number of scores. In a layer's op list the attention core
 * stands between two context marks (OP_CP_ENTER and its counterpart). A method replaces the core
 * and its marks by collectives of the context group and kernel calls. */
#ifndef SIM_PLAN_CONTEXT_AXIS_H
#define SIM_PLAN_CONTEXT_AXIS_H

#include "models/layer.h"
#include "sim/plan/share.h"

/* An attention core: the kernel and the marks around it, forward or backward. */
struct context_core {
    const struct op *enter, *attention, *leave;
    int cp;
    double key_bytes; /* bytes of keys and values of a rank's own tokens */
    short *same_as;   /* if a value is no longer computed, same_as[value] names its replacement */
};

struct context_method {
    const char *name; /* the value of cp-comm=, such as "p2p" */
    const char *summary;
    const char *source;
    /* Checks what the method requires beyond an even split of the sequence; NULL: nothing. */
    bool (*holds)(const struct plan_case *of, struct err *err);
    /* Appends the ops that replace the core to `out`, at most MAX_LOWERED_OPS (axis.h). */
    void (*lower)(const struct context_core *core, struct ops *out);
    /* Bytes of buffers while the core runs, in addition to the values that its ops keep. The
     * arguments are the bytes of queries and of keys and values of a rank's own tokens. */
    double (*buffer_bytes)(int cp, double query_bytes, double key_bytes);
};
extern const struct context_method context_methods[NUM_CONTEXT_COMMS]; /* by enum context_comm */

/* Bytes of other ranks' tokens that a rank holds while it runs an attention core; `dims` are the
 * rank's own sizes. 0 at cp 1. */
double context_buffer_bytes(struct rank_share share, const struct layer_dims *dims,
                            double element_bytes);

#endif
