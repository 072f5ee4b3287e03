/* exec/exchange/hostile.h - data ranks that send something else in place of their gradients, to see
 * what an exchange makes of them.
 *
 * Text form: "2:flip", "2:noise:3": how many, what they send, and how strongly. */
#ifndef EXEC_EXCHANGE_HOSTILE_H
#define EXEC_EXCHANGE_HOSTILE_H

#include "base/err.h"
#include "exec/device/kernels.h"

struct hostility {
    int count; /* of the data ranks; 0: none */
    enum falsity falsity;
    double strength; /* see enum falsity */
};
extern const char *const falsity_words[NUM_FALSITIES + 1]; /* "flip" ... */

/* ERR_USAGE with an empty `where`. */
bool hostility_read(const char *text, struct hostility *out, struct err *err);

/* Whether data rank `index` of `num_ranks` is hostile. The seed determines which ones are. */
bool hostility_includes(const struct hostility *hostility, uint64_t seed, int num_ranks, int index);

/* Replaces `elements` gradients by what a hostile rank sends, on a stream. `draw` is for noise. */
void hostility_issue(const struct hostility *hostility, const struct kernel_api *api,
                     struct kernels *kernels, struct stream *stream, const struct draw *draw,
                     float *gradients, size_t elements);

#endif
