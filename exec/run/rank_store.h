/* exec/run/rank_store.h - which pieces and stores a rank has; rank.c and step.c alone include it.
 */
#ifndef EXEC_RUN_RANK_STORE_H
#define EXEC_RUN_RANK_STORE_H

#include "exec/run/rank_part.h"

/* Chunks, their pieces with their ops and weights, and the stores, which hold no memory yet. */
void rank_place_stores(struct rank *rank);

#endif
