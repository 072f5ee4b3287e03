/* exec/run/data_bytes.h - the bytes that data ranks exchange per step under all-reduce: gradients
 * and, under ZeRO, parameters. Only rank_exchange.c includes it. */
#ifndef EXEC_RUN_DATA_BYTES_H
#define EXEC_RUN_DATA_BYTES_H

#include "exec/run/rank_state.h"

/* Bytes that all members of this rank's data group together should send in a step: the sum of
 * sim/exchange's count over the calls of the instruction list and passes, with arrays padded to
 * whole shards. */
double data_step_bytes(const struct rank *rank);

#endif
