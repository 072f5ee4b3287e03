/* calibration/measure/host_comm.h - times of messages and collectives between the ranks of this
 * machine, and the rate at which a device copies within its memory.
 *
 * All ranks take part in every measurement, divided into as many groups of the measured size as
 * fit. */
#ifndef CALIBRATION_MEASURE_HOST_COMM_H
#define CALIBRATION_MEASURE_HOST_COMM_H

#include "calibration/measure/host_rank.h"
#include "sim/collective/measured_curve.h"

enum { MAX_OWN_SIZES = 4 };

/* The message sizes to measure. They double from the smallest to the largest, with the caller's
 * further sizes (ascending; 0: none) in between. Measuring ends with the first size that takes
 * most_s, as the link's rate dominates larger ones. */
struct host_sizes {
    double least_bytes, most_bytes;
    double own_bytes[MAX_OWN_SIZES];
    double seconds; /* time to spend on each size */
    double most_s;
};

/* One exchange, as timed by one rank and by the rank of its group that started last. */
struct exchange_time {
    double took_s;   /* between this rank's own start and end */
    double waited_s; /* the part spent waiting for a late member */
    double kept_s;   /* the longest time that any member was without a core during the exchange */
};

/* The time of an exchange without late members or missing cores. It is the lower quartile of the
 * undisturbed exchanges, as disturbance only adds time. If all were disturbed, it is the median
 * after the lost time of each was subtracted. */
double exchange_quiet_s(const struct exchange_time *times, int count);

/* Fills `curve` with the lower quartiles of one collective, or of one-way messages, in groups of
 * `num_ranks`. All ranks call it together. */
bool host_curve_measure(struct host_rank *host, int kind, int num_ranks,
                        const struct host_sizes *sizes, struct curve *curve, struct err *err);

/* Fills `values` with random numbers, uniform over -0.5 to 0.5 and the same in each call. */
void host_fill_even(float *values, size_t count);

/* Device memory with `count` numbers of host_fill_even. The caller frees it once no work uses it.
 * On failure it is NULL and err is set. */
float *host_random_values(struct host_rank *host, size_t count, struct err *err);

/* Measures bytes read plus bytes written per second, in a copy too large for any cache. */
bool host_copy_bytes_per_s(struct host_rank *host, double *bytes_per_s, struct err *err);

#endif
