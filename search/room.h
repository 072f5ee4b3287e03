/* search/room.h - the memory of a space's candidates, and the recompute with which they fit. */
#ifndef SEARCH_ROOM_H
#define SEARCH_ROOM_H

#include "search/space.h"

/* The peak of a candidate's memory in bytes. When it is over `most_bytes`, the candidate may be
 * changed from full to full:K recompute. With picks_modules, selective recompute is changed to the
 * set of modules with the shortest step among those that fit; if steps are equal, to the smallest
 * set, and among these to the first. If no set fits, it is changed to the set that needs the least
 * memory. */
double space_peak_bytes(const struct space *space, struct evaluator *evaluator, double most_bytes,
                        struct plan *plan);
/* A lower bound of space_peak_bytes in any rank order. */
double space_least_bytes(const struct space *space, struct evaluator *evaluator,
                         const struct plan *plan);

/* Lower bounds, per ZeRO stage, of the peaks of one block's candidates in any rank order. A block
 * is the candidates with equal degrees and microbatch. Zero-initialise. */
struct block_floors {
    double bytes[NUM_ZERO_STAGES]; /* 0: not known yet */
};
/* A lower bound of the memory of a candidate that keeps the rules. */
double space_floor_bytes(struct block_floors *floors, struct evaluator *evaluator,
                         const struct plan *plan);
/* The least space_floor_bytes of all candidates that differ from the plan only in recompute, ZeRO
 * and the division into chunks. of_place gets the same minimum for each place of the MTP modules
 * (multi-token prediction). */
double space_least_floor_bytes(const struct space *space, struct evaluator *evaluator,
                               const struct plan *plan, double of_place[NUM_MTP_PLACES]);

#endif
