/* sim/exchange/powersgd.h - which tensors PowerSGD sends as two factors of rank R.
 *
 * The left factors (rows x R) of all compressed matrices and the uncompressed tensors are summed by
 * all-reduce first, then the right factors (columns x R). */
#ifndef SIM_EXCHANGE_POWERSGD_H
#define SIM_EXCHANGE_POWERSGD_H

#include "sim/exchange/exchange.h"

/* Whether a tensor is a matrix whose two factors are smaller than itself. */
bool powersgd_compresses(const struct exchange *exchange, const struct exchange_tensor *tensor);

#endif
