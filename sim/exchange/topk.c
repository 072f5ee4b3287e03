/* Top-k compression of gradients: a message has the k elements of largest magnitude. delta is the
 * smallest share of the squared norm that a message can have. */
#include "sim/exchange/topk.h"

#include "sim/exchange/methods.h"

#include <math.h>

double topk_count(const struct exchange *exchange, double elements)
{
    return fmin(elements, fmax(1, ceil(exchange->share * elements)));
}

static double kept(const struct exchange *exchange, const struct exchange_load *load)
{
    return topk_count(exchange, exchange_elements(load));
}

static double message_bytes(const struct exchange *exchange, const struct exchange_load *load)
{
    return TOPK_ELEMENT_BYTES * kept(exchange, load);
}

/* delta = k / d: the d - k smallest of d elements are left out, and their squares are at most the
 * share (d - k) / d of the sum of all squares (Stich, Cordonnier and Jaggi 2018, lemma A.1). */
static double bound(const struct exchange *exchange, const struct exchange_load *load)
{
    return kept(exchange, load) / exchange_elements(load);
}

/* Each round leaves a share 1 - delta of its input, so the shares multiply (Huang et al. 2022,
 * lemma 1). */
static double bound_in_rounds(const struct exchange *exchange, const struct exchange_load *load)
{
    return 1 - pow(1 - bound(exchange, load), exchange->rounds);
}

/* Gradient and error-feedback buffer are read and their sum is written, then read four times, once
 * for each byte of a radix selection, and read and written to remove the sent elements. The buffer
 * for the sum of all messages is cleared, then read and written once per arriving element. */
static double round_bytes(const struct exchange *exchange, const struct exchange_load *load,
                          int received)
{
    enum { MAKE = 3 + 4 + 2, CLEAR = 1 };
    double element = 2 * load->element_bytes + TOPK_ELEMENT_BYTES;
    return (MAKE + CLEAR) * load_bytes(load) +
           kept(exchange, load) * (TOPK_ELEMENT_BYTES + received * element);
}

static double traffic_bytes(const struct exchange *exchange, const struct exchange_load *load,
                            int received)
{
    int rounds = exchange->rounds > 0 ? exchange->rounds : 1;
    return rounds * round_bytes(exchange, load, received);
}

const struct compressor largest_elements = {
    .kind = COMPRESSION_LARGEST,
    .copies = 1,
    .message_bytes = message_bytes,
    .bound = bound,
    .traffic_bytes = traffic_bytes,
};
/* Two arrays as large as the gradients are stored: the sum of all messages that this rank has sent,
 * and the mean of these sums over all ranks. */
const struct compressor largest_changes = {
    .kind = COMPRESSION_CHANGES,
    .copies = 2,
    .message_bytes = message_bytes,
    .bound = bound,
    .traffic_bytes = traffic_bytes,
};
const struct compressor largest_in_rounds = {
    .kind = COMPRESSION_LARGEST,
    .copies = 1,
    .message_bytes = message_bytes,
    .bound = bound_in_rounds,
    .traffic_bytes = traffic_bytes,
};
