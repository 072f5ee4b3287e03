/* sim/engine/memory_interval.h - how certain a predicted memory peak is, and how much of a GPU's
 * memory a search plans with.
 *
 * A rank's real peak is assumed to be log-normal around the predicted one. The stack's memory_error
 * is the half width of its 90 % interval in log bytes, from measured runs. Its memory_shift is the
 * centre: 0, or below 0 if runs are known that did not run out of memory although they are
 * predicted to fill it (calibration/fit/held_peaks.h). Programs can use the memory that nvidia-smi
 * shows minus the driver's part. */
#ifndef SIM_ENGINE_MEMORY_INTERVAL_H
#define SIM_ENGINE_MEMORY_INTERVAL_H

#include "sim/cost/hardware.h"

/* The ends of the interval that contains 90 % of real peaks when `bytes` are predicted. */
double memory_low_bytes(const struct stack *stack, double bytes);
double memory_high_bytes(const struct stack *stack, double bytes);

/* The memory that a predicted peak must fit in: system->fits_bytes if set, or else what programs
 * can use of the GPU. */
double memory_fits_bytes(const struct system *system);

/* The probability of running out of memory when `bytes` are predicted. */
double memory_risk(const struct system *system, double bytes);

/* The largest predicted peak that a search may plan with: its risk is at most `risk`, and it is at
 * most the memory that programs can use. */
double memory_planned_bytes(const struct system *system, double risk);

#endif
