/* calibration/measure/host_pair.h - runs compute and collectives of a rank on separate streams,
 * alone or at the same time. */
#ifndef CALIBRATION_MEASURE_HOST_PAIR_H
#define CALIBRATION_MEASURE_HOST_PAIR_H

#include "calibration/measure/host_rank.h"

/* Kinds of compute: matrix products are bound by arithmetic, sums by memory, attention by both. */
enum host_work { WORK_PRODUCTS, WORK_ATTENTION, WORK_SUMS, NUM_HOST_WORKS };
extern const char *const host_work_names[NUM_HOST_WORKS + 1];

/* Operands are in the device's storage type; `values`, which are exchanged, are fp32. */
struct host_pair {
    struct host_rank *host;
    struct group *group; /* all ranks */
    struct kernels *kernels;
    struct stream *compute, *comm;
    void *matrix, *product, *scratch;
    float *sums, *values;
    enum host_work work;
    enum comm_kind collective;
    /* numbers of repeats, such that compute and collectives take the same time if each runs
     * alone */
    int works, exchanges;
};

/* Opens a pair with products as compute and an all-reduce over all ranks as collective. Close it
 * also after a failure. */
bool host_pair_open(struct host_rank *host, struct host_pair *p, struct err *err);
void host_pair_close(struct host_pair *p);

/* Issues one unit of compute, or one collective. */
void host_pair_work(const struct host_pair *p);
void host_pair_exchange(const struct host_pair *p);

#endif
