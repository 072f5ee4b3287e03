/* exec/run/rank_store.h - a rank's chunks, the pieces of each (embedding, layers or head), and the
 * stores that hold the pieces' weights. Only rank.c and step.c include it. */
#ifndef EXEC_RUN_RANK_STORE_H
#define EXEC_RUN_RANK_STORE_H

#include "exec/run/rank_state.h"

/* Fills the rank's chunks, their pieces with ops and weights, and the list of stores, for which no
 * memory is allocated yet. */
void rank_place_stores(struct rank *rank);

#endif
