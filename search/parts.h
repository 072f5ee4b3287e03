/* search/parts.h - the set of modules (parts) of a block that selective recompute repeats, such as
 * attention's core.
 *
 * In a space with picks_modules, a candidate with selective recompute represents all sets of the
 * model's modules (models/recompute.h). A set that contains another one repeats more, so it is no
 * faster. So the best set is among the least sets that fit, which have no proper subset that fits.
 * All stages repeat the same modules, as in Megatron-Core, whose recompute_modules is one list of
 * the whole model (transformer_config.py); search/uneven/stages.h chooses the modules of each stage
 * separately. */
#ifndef SEARCH_PARTS_H
#define SEARCH_PARTS_H

#include "search/space.h"

enum { MOST_SETS = 1 << REPLAY_PER_OP };

/* Whether the set of modules that the plan recomputes is still to be chosen. */
bool parts_are_open(const struct space *space, const struct plan *plan);
/* A plan that is no slower than the candidate with any set of modules. */
struct plan parts_none(const struct space *space, const struct plan *plan);

/* Fills `sets` with the least sets that fit, by rising number of modules, and returns their number;
 * `bytes` gets their peaks. 0: none fits, and sets[0] and bytes[0] are those of the set that needs
 * the least memory; sets[0] is 0 if every set breaks a rule. */
int parts_that_fit(const struct space *space, struct evaluator *evaluator, double most_bytes,
                   const struct plan *plan, unsigned sets[MOST_SETS], double bytes[MOST_SETS]);

/* A lower bound of the peaks of all sets. */
double parts_least_bytes(struct evaluator *evaluator, const struct plan *plan);

/* Gives the plan the least set that fits and has the shortest step (the first of equally fast sets)
 * or, if no set fits, the set that needs the least memory. Returns the plan's peak. */
double parts_choose(const struct space *space, struct evaluator *evaluator, double most_bytes,
                    struct plan *plan);

/* Fills `sets` with the sets of modules that the plan may repeat on all stages, by rising number of
 * modules: all sets that break no rule and are not forbidden, or only the set that the plan has if
 * the search does not choose. Returns their number. */
int parts_sets(const struct space *space, const struct plan *plan, int sets[MOST_SETS]);

/* The plan with these modules, where 0 means the attention core. If the plan does not have
 * recompute=selective, `parts` must be 0. */
struct plan parts_plan(const struct plan *plan, unsigned parts);

#endif
