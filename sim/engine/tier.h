/* sim/engine/tier.h - whether what a prediction rests on was ever measured.
 *
 * An error is the shift of a whole source and the scatter of its rows. A stack or a GPU that
 * nothing was fitted on shifts all of its predictions alike, by what those differ in that were
 * measured. */
#ifndef SIM_ENGINE_TIER_H
#define SIM_ENGINE_TIER_H

#include "sim/cost/hardware.h"

enum tier { TIER_SEEN, TIER_NEW_STACK, TIER_NEW_GPU, NUM_TIERS };

extern const char *const tier_names[NUM_TIERS]; /* "seen", "new_stack", "new_gpu" */

/* A GPU without a profile of its own runs is new whatever the stack; a stack is new to experts
 * until runs with them were fitted, which none is yet. The project's own executor is measured
 * wherever its machine was. */
enum tier system_tier(const struct system *system, const struct model *model);

/* "no run of torchtitan has been measured ..." */
void tier_sentence(const struct system *system, const struct model *model, char *text, size_t size);

#endif
