/* exec/op_log.h - when the ops of lists ran, in the order of issue.
 *
 * On a host, the time that the stream's own thread computed is noted too: on a core that other
 * programs want, the rest is theirs. */
#ifndef EXEC_OP_LOG_H
#define EXEC_OP_LOG_H

#include "exec/device.h"
#include "models/op.h"

struct op_time {
    const struct op *op;
    double start_s, end_s;
    double own_start_s, own_end_s; /* of the thread's clock */
};

/* The caller owns `at`; what has no room is not noted. */
struct op_log {
    struct op_time *at;
    int count, room;
};

/* Around the issue of an op on its stream; `log` NULL: nothing. */
void op_log_begin(struct op_log *log, const struct device_api *api, struct stream *stream,
                  const struct op *op);
void op_log_end(struct op_log *log, const struct device_api *api, struct stream *stream);

#endif
