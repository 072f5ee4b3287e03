/* search/questions/remedy.h - for a layout that does not fit: the fewest changes of its words with
 * which it fits.
 *
 * A change is one of a kind: what the backward recomputes, 16-bit gradients, a higher ZeRO stage
 * that the stack supports, twice the context ranks with half the data ranks, or half the
 * microbatch. Of each kind only the change with the shortest step is shown. If no single change
 * is enough, pairs of two kinds are tried, and the pair with the shortest step is shown. */
#ifndef SEARCH_QUESTIONS_REMEDY_H
#define SEARCH_QUESTIONS_REMEDY_H

#include "search/scored_plan.h"
#include "sim/cost/hardware.h"

enum { MOST_REMEDIES = 5 };

/* The layouts that keep the rules and whose peak is at most `most_bytes`, shortest step first;
 * returns their number. `plan` keeps the rules on `system`. Plans are in the arena. */
int search_remedies(const struct system *system, const struct model *model, const struct plan *plan,
                    double most_bytes, struct arena *arena, struct scored_plan out[MOST_REMEDIES]);

#endif
