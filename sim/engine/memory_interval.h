/* sim/engine/memory_interval.h - how sure a predicted peak is, and how much of a GPU a search plans
 * with.
 *
 * The peak that a rank reaches is taken as log-normal around the predicted one; the stack's
 * memory_error is the half width of 90 % of it, from measured runs. A GPU's programs have what
 * nvidia-smi shows less the driver's part. */
#ifndef SIM_ENGINE_MEMORY_INTERVAL_H
#define SIM_ENGINE_MEMORY_INTERVAL_H

#include "sim/cost/hardware.h"

/* 90 % of peaks lie between bytes / factor and bytes x factor. */
double memory_factor(const struct stack *stack);

/* The memory that a predicted peak must fit in: programs' share of the GPU, or fits_bytes if set.
 */
double memory_fits_bytes(const struct system *system);

/* The probability of running out of memory when this peak is predicted. */
double memory_risk(const struct system *system, double bytes);

/* The predicted peak whose risk is `risk`, or all that programs have where that is less. Risks grow
 * with predicted bytes, so that this is what a search may plan with. */
double memory_planned_bytes(const struct system *system, double risk);

#endif
