/* search/parts.h - the set of parts that selective recompute repeats.
 *
 * In a space with picks_modules, a candidate with selective recompute stands for all sets of the
 * model's parts (models/replay.h). A set that contains another one repeats more, so it is no
 * faster. So the best is among the least sets that fit: those of which no proper subset fits. All
 * stages repeat the same parts, as in Megatron-Core, whose recompute_modules is one list of the
 * whole model (transformer_config.py); uneven/stages.h chooses other parts on each stage. */
#ifndef SEARCH_PARTS_H
#define SEARCH_PARTS_H

#include "search/space.h"

enum { MOST_SETS = 1 << REPLAY_PER_OP };

/* Whether the plan's parts to recompute are not chosen yet. */
bool parts_are_open(const struct space *space, const struct plan *plan);
/* A plan that is no slower than the candidate with any set of parts. */
struct plan parts_none(const struct space *space, const struct plan *plan);

/* Fills `sets` with the least sets that fit, by rising number of parts, and returns their number;
 * `bytes` gets their peaks. 0: none fits, and sets[0] and bytes[0] are those of the set that needs
 * the least memory; sets[0] is 0 if every set breaks a rule. */
int parts_that_fit(const struct space *space, struct evaluator *evaluator, double most_bytes,
                   const struct plan *plan, unsigned sets[MOST_SETS], double bytes[MOST_SETS]);

/* A lower bound of the peaks of all sets, from the first stage alone. */
double parts_least_bytes(const struct space *space, struct evaluator *evaluator,
                         const struct plan *plan);

/* Sets the plan's parts to those of the least sets that fit with the shortest step, of equal ones
 * the first, or else to those that need the least memory. Returns the plan's peak. */
double parts_choose(const struct space *space, struct evaluator *evaluator, double most_bytes,
                    struct plan *plan);

/* Fills `sets` with the sets of parts that the plan may repeat on all stages, by rising number of
 * parts: those of the model that break no rule and are not forbidden, or the plan's own set if the
 * search does not choose the parts. Returns their number. */
int parts_sets(const struct space *space, const struct plan *plan, int sets[MOST_SETS]);

/* The plan with these parts, or its own without recompute=selective: 0 is the attention core. */
struct plan parts_plan(const struct plan *plan, unsigned parts);

#endif
