/* sim/exchange/topk.h - the form of a message of the largest elements: their indices, ascending, as
 * 32-bit integers, then their values as fp32 in the same order. */
#ifndef SIM_EXCHANGE_TOPK_H
#define SIM_EXCHANGE_TOPK_H

#include "sim/exchange/exchange.h"

enum { TOPK_ELEMENT_BYTES = 4 + 4 };

/* Number of sent elements: the share of `elements`, rounded up, at least one. */
double topk_count(const struct exchange *exchange, double elements);

#endif
