/* PowerSGD as a method of gradient exchange: each gradient matrix is sent as two factors of rank R.
 * delta is a lower bound of the share of a gradient's squared norm that the compressor keeps. */
#include "sim/exchange/powersgd.h"

#include "sim/exchange/methods.h"

#include <math.h>

bool powersgd_compresses(const struct exchange *exchange, const struct exchange_tensor *tensor)
{
    double factors = exchange->rank * (tensor->rows + tensor->columns);
    return tensor->columns > 1 && factors < tensor->rows * tensor->columns;
}

/* Bytes over all tensors: of the left factors together with the uncompressed tensors, and of the
 * right factors. */
struct factors {
    double left_bytes, right_bytes;
};

static struct factors factors_of(const struct exchange *exchange, const struct exchange_load *load)
{
    struct factors sum = { 0 };
    for (int i = 0; i < load->num_tensors; i++) {
        const struct exchange_tensor *tensor = &load->tensors[i];
        double bytes = tensor->count * load->element_bytes;
        if (powersgd_compresses(exchange, tensor)) {
            sum.left_bytes += bytes * tensor->rows * exchange->rank;
            sum.right_bytes += bytes * tensor->columns * exchange->rank;
        } else {
            sum.left_bytes += bytes * tensor->rows * tensor->columns;
        }
    }
    return sum;
}

/* For a matrix M and the last step's right factor Q, P = M Q is summed over ranks and
 * orthonormalised, then Q = M' P is summed. Unlike other compressed messages the factors can be
 * summed, so both are all-reduced. */
void power_phases(const struct exchange *exchange, const struct exchange_load *load,
                  const struct exchange_ranks *ranks, bool averages, struct exchange_phases *out)
{
    (void)averages;
    struct factors factors = factors_of(exchange, load);
    add_phase(out, PHASE_ALL_REDUCE, ranks->count, 1, factors.left_bytes);
    add_phase(out, PHASE_ALL_REDUCE, ranks->count, 1, factors.right_bytes);
}

static double message_bytes(const struct exchange *exchange, const struct exchange_load *load)
{
    struct factors factors = factors_of(exchange, load);
    return factors.left_bytes + factors.right_bytes;
}

/* delta of the largest matrix. The best approximation of rank r leaves out all but the r largest of
 * the min(rows, columns) squared singular values. The left-out values are at most the share 1 - r /
 * min(rows, columns) of the sum. The power iteration, which starts from the last step's factors,
 * comes close to it. */
static double bound(const struct exchange *exchange, const struct exchange_load *load)
{
    double least = 1;
    for (int i = 0; i < load->num_tensors; i++) {
        const struct exchange_tensor *tensor = &load->tensors[i];
        if (powersgd_compresses(exchange, tensor))
            least = fmin(least, exchange->rank / fmin(tensor->rows, tensor->columns));
    }
    return least;
}

/* Gradient and error-feedback buffer are read and their sum is written. The sum is read for each of
 * the two products. P Q^T is written, then subtracted from the sum, which is read and written. */
static double traffic_bytes(const struct exchange *exchange, const struct exchange_load *load,
                            int received)
{
    (void)exchange, (void)received;
    enum { PASSES = 3 + 2 + 1 + 2 };
    return PASSES * load_bytes(load);
}

const struct compressor low_rank = {
    .kind = COMPRESSION_FACTORS,
    .copies = 1,
    .message_bytes = message_bytes,
    .bound = bound,
    .traffic_bytes = traffic_bytes,
};
