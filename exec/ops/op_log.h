/* exec/ops/op_log.h - records when the ops of lists ran, in the order of issue.
 *
 * On a host it also records the CPU time of the stream's own thread: on a shared core, other
 * programs used the rest of the elapsed time. */
#ifndef EXEC_OPS_OP_LOG_H
#define EXEC_OPS_OP_LOG_H

#include "exec/device/device.h"
#include "models/op.h"

struct op_time {
    const struct op *op;
    double start_s, end_s;
    double own_start_s, own_end_s; /* CPU time of the thread */
};

/* The caller owns `at`; ops beyond its capacity are not recorded. */
struct op_log {
    struct op_time *at;
    int count, room;
};

/* Call these before and after the issue of an op on its stream. `log` may be NULL. */
void op_log_begin(struct op_log *log, const struct device_api *api, struct stream *stream,
                  const struct op *op);
void op_log_end(struct op_log *log, const struct device_api *api, struct stream *stream);

#endif
