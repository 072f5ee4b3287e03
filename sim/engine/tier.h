/* sim/engine/tier.h - whether the stack (training software) and the GPU of a prediction were ever
 * measured.
 *
 * The error of a prediction has two parts: a shift, which all runs of one source have in common,
 * and the scatter of single runs. If a stack or a GPU was never fitted, all predictions for it have
 * the same unknown shift; its size is taken from the differences between measured stacks or
 * GPUs. */
#ifndef SIM_ENGINE_TIER_H
#define SIM_ENGINE_TIER_H

#include "sim/cost/hardware.h"

enum tier { TIER_SEEN, TIER_NEW_STACK, TIER_NEW_GPU, NUM_TIERS };

extern const char *const tier_names[NUM_TIERS]; /* "seen", "new_stack", "new_gpu" */

/* The tier is that of a new GPU if the profile was not fitted to runs on that GPU, whatever the
 * stack. Every stack is new for models with experts, as no runs with experts have been fitted yet,
 * and for models with another feature that no measured run has (model_unmeasured). The project's
 * own executor counts as measured on a machine that `calibrate` measured. */
enum tier system_tier(const struct system *system, const struct model *model);

/* Writes a sentence such as "no run of torchtitan has been measured ...". */
void tier_sentence(const struct system *system, const struct model *model, char *text, size_t size);

#endif
