/* exec/stopwatch.h - when work on a stream runs.
 *
 * A note is a call on the stream itself: it is taken when what was issued before has run. */
#ifndef EXEC_STOPWATCH_H
#define EXEC_STOPWATCH_H

#include "exec/device.h"
#include "models/op.h"

/* *at = the time at which `stream` comes to this place; `at` must last until then. */
void stopwatch_note(const struct device_api *api, struct stream *stream, double *at);

/* When ops ran, in the order of issue. The caller owns `at`; what has no room is not noted. The
 * ops are those of the lists that ran. On a host, the time that the stream's own thread computed
 * is noted too: on a core that other programs want, the rest is theirs. */
struct op_time {
    const struct op *op;
    double start_s, end_s;
    double own_start_s, own_end_s; /* of the thread's clock */
};
struct op_log {
    struct op_time *at;
    int count, room;
};

/* Around the issue of an op on its stream; `log` NULL: nothing. */
void op_log_begin(struct op_log *log, const struct device_api *api, struct stream *stream,
                  const struct op *op);
void op_log_end(struct op_log *log, const struct device_api *api, struct stream *stream);

#endif
