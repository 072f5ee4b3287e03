/* exec/run/checkpoint_exchange.h - what of a checkpoint is not the model's but its ranks': copies
 * of the weights that differ, and what an exchange keeps on each. checkpoint_save.c and
 * checkpoint_load.c alone include it.
 *
 * The same layout, its exchange included, goes on with all of it to the bit. Another one takes the
 * mean of the copies, weights and moments, as an average of all ranks would at that step; what an
 * exchange keeps is of the gradients of one rank's own elements, and is refused. */
#ifndef EXEC_RUN_CHECKPOINT_EXCHANGE_H
#define EXEC_RUN_CHECKPOINT_EXCHANGE_H

#include "exec/run/checkpoint_file.h"
#include "exec/run/rank_part.h"

/* Fills in layout, exchange, replicas and where a period is. */
void checkpoint_tell_exchange(const struct rank *rank, struct checkpoint_header *header);

/* Whether the run is of the layout that saved. */
bool checkpoint_is_of_layout(const struct rank *rank, const struct checkpoint_header *header);
/* ERR_INPUT, where = "exchange", when the checkpoint holds what another layout cannot take over. */
bool checkpoint_exchange_fits(const struct rank *rank, const struct checkpoint_header *header,
                              struct err *err);

/* Whether the rank that wrote the file, under the same layout, had the weights that this rank
 * resumes with. */
bool checkpoint_is_of_replica(const struct rank *rank, const struct checkpoint_header *header,
                              int file_rank);

/* Slices of what this rank's exchange keeps, numbered from 0, in an order of their own; `from` is
 * where the floats lie in the device's memory. False past the last. */
bool checkpoint_kept_slice(const struct rank *rank, uint32_t number, struct checkpoint_slice *out,
                           float **from);
/* All of them, of this rank's own file; `floats` has room for a slice. */
bool checkpoint_load_kept(struct rank *rank, const struct checkpoint_file *file, float *floats,
                          struct err *err);

#endif
