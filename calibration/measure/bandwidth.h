/* calibration/measure/bandwidth.h - measures the times of memory-bound ops for sizes from 4 KiB to
 * more than any cache holds, and fits the two constants of the formula for such times to all
 * measurements.
 *
 * Every op is timed twice: `warm`, repeated on the same values, and `cold`, after writing so much
 * other memory that the values have left every cache. */
#ifndef CALIBRATION_MEASURE_BANDWIDTH_H
#define CALIBRATION_MEASURE_BANDWIDTH_H

#include "calibration/measure/host_rank.h"

#include <jansson.h>

enum { MOST_BANDWIDTH_POINTS = 256 };

struct bandwidth_point {
    const char *op; /* such as "norm"; static text */
    int num_kernels;
    double bytes; /* bytes read and written */
    double warm_s, cold_s;
};

struct bandwidths {
    struct bandwidth_point at[MOST_BANDWIDTH_POINTS];
    int count;
    double note_s; /* time between two consecutive notes (timestamps on the stream), which every
                      measured time includes */
};

/* Measures ops with up to `most_bytes` of traffic, in twice as much device memory, for about
 * `seconds` in all. The results are means over the ranks, which all call it together. */
bool bandwidth_measure(struct host_rank *host, double most_bytes, double seconds,
                       struct bandwidths *out, struct err *err);

/* seconds = num_kernels kernel_s + bytes / bytes_per_s, the formula of sim/cost/compute.c. It is
 * fitted to the times of cold ops minus note_s, by least squares of relative errors. Neither
 * constant is negative; the rate is 0 when nothing was measured. */
struct bandwidth_fit {
    double kernel_s, bytes_per_s;
    double median_error; /* median of |log(predicted / measured)| */
};
struct bandwidth_fit bandwidth_fit(const struct bandwidths *measured);

/* The sizes and times of each op, for a profile's residuals. */
json_t *bandwidths_json(const struct bandwidths *measured);

#endif
