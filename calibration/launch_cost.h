/* calibration/launch_cost.h - the cost of launching work on a device: the caller's time and the
 * stream's, for kernels that do nothing and for events between streams. */
#ifndef CALIBRATION_LAUNCH_COST_H
#define CALIBRATION_LAUNCH_COST_H

#include "calibration/host_rank.h"

struct launch_cost {
    double call_s;        /* of many kernels that do nothing, issued and run: whichever is slower */
    double issue_s;       /* the caller's for one */
    double kernel_s;      /* the stream's, start to start, of kernels that wait in it */
    double graph_issue_s; /* the caller's for a kernel of a graph of hundreds */
    double graph_kernel_s; /* the stream's, start to start, in such a graph */
    double event_issue_s;  /* the caller's for a record and a wait */
    double event_s; /* from the end of one stream's work to the work that waits for it on another */
};

/* Means over the ranks, which all call it together. */
bool launch_cost_measure(struct host_rank *host, struct launch_cost *out, struct err *err);

#endif
