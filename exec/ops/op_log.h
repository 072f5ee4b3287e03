/* exec/ops/op_log.h - records when the ops of lists ran, in the order of issue.
 *
 * On a host it also records the CPU time of the stream's own thread: on a shared core, the rest of
 * the elapsed time went to other programs. */
#ifndef EXEC_OPS_OP_LOG_H
#define EXEC_OPS_OP_LOG_H

#include "exec/device/device.h"
#include "models/op.h"

struct op_time {
    const struct op *op;
    double start_s, end_s;
    double own_start_s, own_end_s; /* CPU time of the thread */
};

/* The caller owns `at`; ops beyond its room are not recorded. */
struct op_log {
    struct op_time *at;
    int count, room;
};

/* Call these around the issue of an op on its stream; `log` NULL: do nothing. */
void op_log_begin(struct op_log *log, const struct device_api *api, struct stream *stream,
                  const struct op *op);
void op_log_end(struct op_log *log, const struct device_api *api, struct stream *stream);

#endif
