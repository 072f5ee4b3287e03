/* exec/run/data_bytes.h - what the data ranks of a plan that all-reduces send each other in a step:
 * gradients and, under ZeRO, parameters. Only rank_exchange.c includes it. */
#ifndef EXEC_RUN_DATA_BYTES_H
#define EXEC_RUN_DATA_BYTES_H

#include "exec/run/rank_part.h"

/* Bytes that all members of this rank's data group together are to send, by its list and the passes
 * in it: sim/exchange's count of each call, of arrays padded to whole shards. */
double data_step_bytes(const struct rank *rank);

#endif
