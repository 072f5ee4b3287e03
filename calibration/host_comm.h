/* calibration/host_comm.h - how long messages and collectives between the ranks of this machine
 * take, and how fast a device copies within its memory.
 *
 * All ranks are active in every measurement, in as many groups of a size as there is room for. */
#ifndef CALIBRATION_HOST_COMM_H
#define CALIBRATION_HOST_COMM_H

#include "calibration/host_rank.h"
#include "sim/cost/curve.h"

enum { MAX_OWN_SIZES = 4 };

/* Sizes from the least to the most, each twice the one before, with one's own between them,
 * ascending (0: none). Sizes end once one takes most_s: beyond it the link's rate decides. */
struct host_sizes {
    double least_bytes, most_bytes;
    double own_bytes[MAX_OWN_SIZES];
    double seconds; /* spent on each size */
    double most_s;
};

/* One exchange, as a rank and the last of its group saw it. */
struct exchange_time {
    double took_s;   /* between this rank's own start and end */
    double waited_s; /* of that, for a member that came late */
    double kept_s;   /* the longest that any member was without a core meanwhile */
};

/* The time of an exchange when nobody is late and all have their cores: the lower quartile of the
 * undisturbed ones, as disturbance only adds. Where all were disturbed: their median, less the time
 * lost. */
double exchange_quiet_s(const struct exchange_time *times, int count);

/* Fills `curve` with the lower quartiles of one collective, or of messages that go one way, in
 * groups of `num_ranks`. All ranks call it together. */
bool host_curve_measure(struct host_rank *host, int kind, int num_ranks,
                        const struct host_sizes *sizes, struct curve *curve, struct err *err);

/* Fills in random numbers, even over -0.5 to 0.5, the same each time. */
void host_fill_even(float *values, size_t count);

/* Device memory of so many such numbers; the caller frees it when nothing
 * runs on it any more. NULL with err. */
float *host_random_values(struct host_rank *host, size_t count, struct err *err);

/* Bytes read and bytes written per second, of a copy too large for any cache. */
bool host_copy_bytes_per_s(struct host_rank *host, double *bytes_per_s, struct err *err);

#endif
