/* exec/spike.h - finds a loss that leaps among losses that waver.
 *
 * Mean and variance of the losses so far, those of about the last 50 steps counting most
 * (exponential weights: Finch 2009, "Incremental calculation of weighted mean and variance"). The
 * people who trained OPT-175B did this by eye, and went back to a checkpoint with a lower rate
 * (Zhang et al. 2022, section 2.5 and the logbook). */
#ifndef EXEC_SPIKE_H
#define EXEC_SPIKE_H

#include <stdbool.h>
#include <stdint.h>

/* A value that a checkpoint holds; zeros: no loss was seen. */
struct spike_watch {
    double mean, variance;
    int64_t count;
};

/* The standard deviation that a loss is compared with: at least a thousandth of the mean. */
double spike_deviation(const struct spike_watch *watch);

/* Whether `loss` lies more than `limit` standard deviations above the mean, once 10 losses are
 * known. Any other finite loss is counted. */
bool spike_seen(struct spike_watch *watch, double limit, double loss);

#endif
