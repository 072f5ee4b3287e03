/* sim/exchange/powersgd.h - which tensors travel as factors.
 *
 * First, summed by all-reduce, go the left factors (rows x R) of all compressed matrices and the
 * tensors that are not compressed, then the right ones (columns x R). */
#ifndef SIM_EXCHANGE_POWERSGD_H
#define SIM_EXCHANGE_POWERSGD_H

#include "sim/exchange/exchange.h"

/* A matrix whose two factors are smaller than it. */
bool powersgd_compresses(const struct exchange *exchange, const struct exchange_tensor *tensor);

#endif
