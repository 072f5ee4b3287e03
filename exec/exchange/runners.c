#include "base/length.h"
#include "exec/exchange/methods.h"

#include <string.h>

// clang-format off
#define SUM     .open = sum_open, .sum = sum_by_phases, .memory_elements = sum_memory_elements
#define AVERAGE .open = average_open, .sum = average_sum, .average = average_weights, \
                .memory_elements = average_memory_elements

static const struct exchange_runner runners[] = {
    { "allreduce", SUM },
    { "ring", SUM },
    { "tree", SUM },
    { "hierarchical", SUM },
    { "ps", SUM },
    { "gossip", AVERAGE },
    { "local", AVERAGE },
    { "pga", AVERAGE },
    { "aga", AVERAGE },
    { "qsgd", .open = qsgd_open, .sum = qsgd_sum, .memory_elements = message_memory_elements },
    { "topk", .open = top_k_open, .sum = top_k_sum, .memory_elements = top_k_memory_elements,
      .keeps = "error memory", .kept = memory_kept },
    { "ef21", .open = ef21_open, .sum = ef21_sum, .memory_elements = ef21_memory_elements,
      .keeps = "last gradient", .kept = ef21_kept },
    { "neolithic", .open = top_k_open, .sum = top_k_sum, .memory_elements = top_k_memory_elements,
      .keeps = "error memory", .kept = memory_kept },
    { "powersgd", .open = power_open, .sum = power_sum, .memory_elements = power_memory_elements,
      .keeps = "error memory and factors", .kept = power_kept },
};
// clang-format on

const struct exchange_runner *exchange_runner_of(const struct exchange *exchange)
{
    const char *name = exchange_method_of(exchange)->name;
    for (size_t i = 0; i < LENGTH(runners); i++)
        if (strcmp(runners[i].name, name) == 0)
            return &runners[i];
    return NULL;
}
