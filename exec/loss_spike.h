/* exec/loss_spike.h - detects a spike among noisy losses.
 *
 * It tracks the mean and variance of the losses so far, with most weight on about the last 50
 * (exponential weights: Finch 2009, "Incremental calculation of weighted mean and variance"). The
 * trainers of OPT-175B detected spikes by eye and restarted from a checkpoint with a lower learning
 * rate (Zhang et al. 2022, section 2.5 and the logbook). */
#ifndef EXEC_LOSS_SPIKE_H
#define EXEC_LOSS_SPIKE_H

#include <stdbool.h>
#include <stdint.h>

/* Saved in checkpoints; zeros: no loss was seen. */
struct spike_watch {
    double mean, variance;
    int64_t count;
};

/* The standard deviation with which a loss is compared; it is at least a thousandth of the mean. */
double spike_deviation(const struct spike_watch *watch);

/* Whether `loss` lies more than `limit` standard deviations above the mean, once 10 losses are
 * known. Any other finite loss is added to the mean and variance. */
bool spike_seen(struct spike_watch *watch, double limit, double loss);

#endif
