/* calibration/host_pair.h - compute and collectives of a rank on streams of their own, to run alone
 * or beside each other. */
#ifndef CALIBRATION_HOST_PAIR_H
#define CALIBRATION_HOST_PAIR_H

#include "calibration/host_rank.h"

/* What computes: products are bound by the multipliers, sums by memory, attention by neither alone.
 */
enum host_work { WORK_PRODUCTS, WORK_ATTENTION, WORK_SUMS, NUM_HOST_WORKS };
extern const char *const host_work_names[NUM_HOST_WORKS + 1];

/* Values are as the device stores them; `values` are what is exchanged, fp32. */
struct host_pair {
    struct host_rank *host;
    struct group *group; /* all ranks */
    struct kernels *kernels;
    struct stream *compute, *comm;
    void *matrix, *product, *scratch;
    float *sums, *values;
    enum host_work work;
    enum comm_kind collective;
    int works, exchanges; /* as many as take equally long alone */
};

/* Begins with products, an all-reduce and all ranks. Close it in either case. */
bool host_pair_open(struct host_rank *host, struct host_pair *p, struct err *err);
void host_pair_close(struct host_pair *p);

/* Issues one piece of its work, or one of its collectives. */
void host_pair_work(const struct host_pair *p);
void host_pair_exchange(const struct host_pair *p);

#endif
