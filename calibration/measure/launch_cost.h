/* calibration/measure/launch_cost.h - the cost of launching work on a device: the times that the
 * calling thread and the stream need for empty kernels and for events between streams. */
#ifndef CALIBRATION_MEASURE_LAUNCH_COST_H
#define CALIBRATION_MEASURE_LAUNCH_COST_H

#include "calibration/measure/host_rank.h"

struct launch_cost {
    double call_s;   /* time per empty kernel when many are issued and run; the slower of caller and
                        stream sets it */
    double issue_s;  /* caller's time for one kernel */
    double kernel_s; /* stream's time from start to start of queued kernels */
    double graph_issue_s;  /* caller's time per kernel of a graph of hundreds */
    double graph_kernel_s; /* stream's time from start to start in such a graph */
    double event_issue_s;  /* caller's time for a record and a wait */
    double event_s; /* from the end of work on one stream to the start of the work that waits for it
                       on another */
};

/* The results are means over the ranks, which all call it together. */
bool launch_cost_measure(struct host_rank *host, struct launch_cost *out, struct err *err);

#endif
