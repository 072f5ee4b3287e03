/* calibration/measure/host_profile.h - writes measurements of this machine as a cluster file, which
 * contains a "GPU" (one core), its profile and its stack. */
#ifndef CALIBRATION_MEASURE_HOST_PROFILE_H
#define CALIBRATION_MEASURE_HOST_PROFILE_H

#include "calibration/measure/bandwidth.h"
#include "calibration/measure/held_out.h"
#include "calibration/measure/host_comm.h"
#include "calibration/measure/host_copies.h"
#include "calibration/measure/host_ops.h"
#include "calibration/measure/host_overlap.h"
#include "calibration/measure/launch_cost.h"

#include <jansson.h>

struct host_measured {
    int num_ranks; /* ranks that took part */
    struct host_ops ops;
    struct curve *curves;
    int num_curves;
    struct launch_cost launch;
    double copy_bytes_per_s;
    struct bandwidths traffic;
    struct host_copies copies;
    double disk_bytes_per_s; /* total of all ranks; 0: not measured */
    struct host_overlaps overlaps;
    double drift_s;
    enum precision precision; /* precision of the timed training steps */
    struct held_out_steps held_out;
    struct disturbance disturbed; /* how other programs disturbed the measurements;
                                     host_add_held_out adds held_out_error */
    int left_out;                 /* shapes skipped for lack of time */
    double elapsed_s;
    char options[64]; /* options as given, such as "--quick" */
};

/* Name of the "GPU" that stands for a core in the cluster file. */
extern const char host_gpu_name[];

/* The cluster file, which system_load reads back. `stack` is the host's; the file gets it with
 * measured costs. The caller frees. */
json_t *host_cluster_json(const struct host_measured *measured, const struct stack *stack);

/* Adds the predictions of the held-out steps to the residuals of the cluster file's profile. The
 * profile's interval becomes as wide as their errors. The profile is marked as disturbed when these
 * errors exceed the tables' leave-one-out errors or when other programs used the cores. */
bool host_add_held_out(const struct host_measured *m, json_t *cluster, struct err *err);

/* Leave-one-out errors of the tables of a kind, or of all kinds (-1): |log(predicted / measured)|
 * of each point, predicted from the table's other points. Sorted. The caller frees. */
double *host_left_out(const struct kernel *kernels, int num_kernels, int kind, int *count);

/* The ops' times as kernel tables. The caller releases each table and frees the array. */
struct kernel *host_kernels(const struct host_ops *ops, int *count);

#endif
