/* exec/exchange/hostile.h - data ranks that send false gradients, to test how an exchange deals
 * with them.
 *
 * The text form is COUNT:KIND[:STRENGTH], for example "2:flip" or "2:noise:3". */
#ifndef EXEC_EXCHANGE_HOSTILE_H
#define EXEC_EXCHANGE_HOSTILE_H

#include "base/err.h"
#include "exec/device/kernels.h"

struct hostility {
    int count; /* number of hostile data ranks; 0: none */
    enum falsity falsity;
    double strength; /* see enum falsity */
};
extern const char *const falsity_words[NUM_FALSITIES + 1]; /* "flip" ... */

/* On failure ERR_USAGE with an empty `where`. */
bool hostility_read(const char *text, struct hostility *out, struct err *err);

/* Whether data rank `index` of `num_ranks` is hostile. The seed determines the hostile ranks. */
bool hostility_includes(const struct hostility *hostility, uint64_t seed, int num_ranks, int index);

/* Replaces `elements` gradients by a hostile rank's values, on a stream. `draw` is the random draw
 * of the noise. */
void hostility_issue(const struct hostility *hostility, const struct kernel_api *api,
                     struct kernels *kernels, struct stream *stream, const struct draw *draw,
                     float *gradients, size_t elements);

#endif
