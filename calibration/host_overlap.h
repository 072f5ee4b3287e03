/* calibration/host_overlap.h - how much slower compute and collectives run beside one another. */
#ifndef CALIBRATION_HOST_OVERLAP_H
#define CALIBRATION_HOST_OVERLAP_H

#include "calibration/host_pair.h"

#include <jansson.h>

/* How many times longer either takes. */
struct host_slowdown {
    double compute, comm;
};

struct host_overlap {
    enum host_work work;
    enum comm_kind collective;
    int most_blocks; /* of struct comm_options */
    struct host_slowdown slowdown;
};
enum { MOST_OVERLAPS = 24 };
struct host_overlaps {
    struct host_overlap at[MOST_OVERLAPS];
    int count;
};

/* Each work beside an all-reduce; unless `is_quick`, beside the other collectives too, and where
 * the communicator runs on GPUs, with several numbers of thread blocks. About `seconds`. All ranks,
 * two at least, call it together. */
bool host_overlaps_measure(struct host_rank *host, bool is_quick, double seconds,
                           struct host_overlaps *out, struct err *err);

/* The slowdown of products, most of a step's time, beside collectives with no limit on their
 * blocks; { 1, 1 } when nothing was measured. */
struct host_slowdown host_overlaps_mean(const struct host_overlaps *overlaps);

json_t *host_overlaps_json(const struct host_overlaps *overlaps);

#endif
