/* exec/run/checkpoint_exchange.h - the part of a checkpoint that belongs to ranks and not to the
 * model: differing copies of the weights, and the state of an exchange. checkpoint_save.c and
 * checkpoint_load.c alone include it.
 *
 * With the same layout and exchange a run resumes from all of this state, bit by bit. Another
 * layout resumes with the mean of the copies' weights and moments, as an average over all ranks at
 * that step would give. An exchange's state belongs to the gradients of one rank's elements, so a
 * run with another layout rejects it. */
#ifndef EXEC_RUN_CHECKPOINT_EXCHANGE_H
#define EXEC_RUN_CHECKPOINT_EXCHANGE_H

#include "exec/run/checkpoint_file.h"
#include "exec/run/rank_state.h"

/* Fills in the header's layout, exchange, number of replicas and place in the exchange's period. */
void checkpoint_tell_exchange(const struct rank *rank, struct checkpoint_header *header);

/* Whether the run has the layout that saved the checkpoint. */
bool checkpoint_is_of_layout(const struct rank *rank, const struct checkpoint_header *header);
/* Fails with ERR_INPUT, where = "exchange", when the checkpoint holds exchange state of another
 * layout. */
bool checkpoint_exchange_fits(const struct rank *rank, const struct checkpoint_header *header,
                              struct err *err);

/* Whether the rank that wrote the file, on the same layout, held the weights that this rank resumes
 * with. */
bool checkpoint_is_of_replica(const struct rank *rank, const struct checkpoint_header *header,
                              int file_rank);

/* Describes slice `number`, from 0, of this rank's exchange state. A slice is a block of
 * consecutive elements. `from` is the address of its floats in device memory. Returns false past
 * the last slice. */
bool checkpoint_kept_slice(const struct rank *rank, uint32_t number, struct checkpoint_slice *out,
                           float **from);
/* Loads all slices of the exchange state from this rank's file; `floats` has space for one
 * slice. */
bool checkpoint_load_kept(struct rank *rank, const struct checkpoint_file *file, float *floats,
                          struct err *err);

#endif
