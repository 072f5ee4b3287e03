/* The table of the functions that run each method of gradient exchange. */
#include "exec/exchange/methods.h"

/* `sums` runs sums of uncompressed gradients, `averages` averages of weights. */
static const struct exchange_runner sums = {
    .open = sum_open,
    .sum = sum_by_phases,
    .memory_elements = sum_memory_elements,
};
static const struct exchange_runner averages = {
    .open = average_open,
    .sum = average_sum,
    .combines = true,
    .num_summed = average_num_summed,
    .average = average_weights,
    .memory_elements = average_memory_elements,
};

static const struct exchange_runner late = {
    .open = late_open,
    .begin = late_begin,
    .sum = late_sum,
    .memory_elements = late_memory_elements,
    .keeps = "late gradients",
    .kept = late_kept,
};
static const struct exchange_runner robust = {
    .open = robust_open,
    .sum = robust_sum,
    .combines = true,
    .memory_elements = robust_memory_elements,
};

// clang-format off
static const struct exchange_runner compressed[NUM_COMPRESSIONS] = {
    [COMPRESSION_ROUNDED] = { .open = qsgd_open, .sum = qsgd_sum, .combines = true,
                              .memory_elements = message_memory_elements },
    [COMPRESSION_LARGEST] = { .open = top_k_open, .sum = top_k_sum, .combines = true,
                              .memory_elements = top_k_memory_elements,
                              .keeps = "error-feedback buffers", .kept = memory_kept,
                              .keeps_memory_alone = true },
    [COMPRESSION_CHANGES] = { .open = ef21_open, .sum = ef21_sum, .combines = true,
                              .memory_elements = ef21_memory_elements,
                              .keeps = "last gradient", .kept = ef21_kept },
    [COMPRESSION_FACTORS] = { .open = power_open, .sum = power_sum, .combines = true,
                              .memory_elements = power_memory_elements,
                              .keeps = "error-feedback buffers and factors", .kept = power_kept },
};
// clang-format on

const struct exchange_runner *exchange_runner_of(const struct exchange *exchange)
{
    const struct exchange_method *method = exchange_method_of(exchange);
    if (method->compressor)
        return &compressed[method->compressor->kind];
    if (exchange_is_late(exchange))
        return &late;
    if (method->rule)
        return &robust;
    return method->object == EXCHANGE_WEIGHTS ? &averages : &sums;
}
