/* exec/exchange/methods.h - functions of the method files for the tables in runners.c. No other
 * file includes it. */
#ifndef EXEC_EXCHANGE_METHODS_H
#define EXEC_EXCHANGE_METHODS_H

#include "exec/exchange/exchanger_part.h"

typedef bool open_method(struct exchanger *exchanger, struct err *err);
typedef void sum_gradients(struct exchanger *exchanger, float *gradients);
typedef int list_kept(const struct exchanger *exchanger, struct kept *out);
typedef double count_memory(const struct exchange *exchange, const struct exchange_load *load,
                            const struct exchange_ranks *ranks);

open_method sum_open, average_open, qsgd_open, top_k_open, ef21_open, power_open, robust_open,
    late_open;
sum_gradients sum_by_phases, average_sum, qsgd_sum, top_k_sum, ef21_sum, power_sum, robust_sum,
    late_sum;
list_kept memory_kept, ef21_kept, power_kept, late_kept;
count_memory sum_memory_elements, average_memory_elements, message_memory_elements,
    top_k_memory_elements, ef21_memory_elements, power_memory_elements, robust_memory_elements,
    late_memory_elements;
void late_begin(struct exchanger *exchanger);
void average_weights(struct exchanger *exchanger, const float *weights, float *out);
int average_num_summed(const struct exchanger *exchanger);

#endif
