/* QSGD as a method of gradient exchange: ranks send gradients rounded to a few bits. s is the
 * number of levels. */
#include "sim/exchange/qsgd.h"

#include "sim/exchange/methods.h"

#include <math.h>

int qsgd_levels(int bits)
{
    return (1 << (bits - 1)) - 1;
}

static double message_bytes(const struct exchange *exchange, const struct exchange_load *load)
{
    double elements = exchange_elements(load);
    return 4 * ceil(elements * exchange->bits / 32) + 4 * ceil(elements / QSGD_BUCKET);
}

/* omega of a bucket of d elements with s levels: min(d / s^2, sqrt(d) / s) (Alistarh et al. 2017,
 * lemma 3.1). */
static double bound(const struct exchange *exchange, const struct exchange_load *load)
{
    double d = fmin(exchange_elements(load), QSGD_BUCKET);
    double s = qsgd_levels(exchange->bits);
    return fmin(d / (s * s), sqrt(d) / s);
}

/* Gradients are read twice, for the norms and for rounding, and the message is written. Then all
 * messages are read and their sum is written. */
static double traffic_bytes(const struct exchange *exchange, const struct exchange_load *load,
                            int received)
{
    double message = message_bytes(exchange, load);
    return 3 * load_bytes(load) + (1 + received) * message;
}

const struct compressor quantiser = {
    .kind = COMPRESSION_ROUNDED,
    .is_unbiased = true,
    .message_bytes = message_bytes,
    .bound = bound,
    .traffic_bytes = traffic_bytes,
};
