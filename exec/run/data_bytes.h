/* exec/run/data_bytes.h - the bytes that data ranks exchange per step under all-reduce: gradients
 * and, under ZeRO, parameters. Only rank_exchange.c includes it. */
#ifndef EXEC_RUN_DATA_BYTES_H
#define EXEC_RUN_DATA_BYTES_H

#include "exec/run/rank_state.h"

/* Bytes that all members of this rank's data group together should send, by its instruction list
 * and passes: sim/exchange's count for each call, with arrays padded to whole shards. */
double data_step_bytes(const struct rank *rank);

#endif
