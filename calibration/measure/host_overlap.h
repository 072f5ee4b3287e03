/* calibration/measure/host_overlap.h - how much compute and collectives slow each other. */
#ifndef CALIBRATION_MEASURE_HOST_OVERLAP_H
#define CALIBRATION_MEASURE_HOST_OVERLAP_H

#include "calibration/measure/host_pair.h"

#include <jansson.h>

/* Factors by which the times of compute and of collectives grow when both run. */
struct host_slowdown {
    double compute, comm;
};

struct host_overlap {
    enum host_work work;
    enum comm_kind collective;
    int most_blocks; /* maximum number of thread blocks of a collective (struct comm_options) */
    struct host_slowdown slowdown;
};
enum { MOST_OVERLAPS = 24 };
struct host_overlaps {
    struct host_overlap at[MOST_OVERLAPS];
    int count;
};

/* Measures each kind of compute together with an all-reduce. Unless `is_quick`, also with the other
 * collectives and, on GPUs, with several limits on thread blocks. Takes about `seconds`. All ranks,
 * at least two, call it together. */
bool host_overlaps_measure(struct host_rank *host, bool is_quick, double seconds,
                           struct host_overlaps *out, struct err *err);

/* The slowdown of matrix products, which take most of a step, and of collectives without a block
 * limit; { 1, 1 } when nothing was measured. */
struct host_slowdown host_overlaps_mean(const struct host_overlaps *overlaps);

json_t *host_overlaps_json(const struct host_overlaps *overlaps);

#endif
