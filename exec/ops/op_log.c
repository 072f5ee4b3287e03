#include "exec/ops/op_log.h"

void op_log_begin(struct op_log *log, const struct device_api *api, struct stream *stream,
                  const struct op *op)
{
    if (!log || log->count == log->room)
        return;
    struct op_time *at = &log->at[log->count];
    *at = (struct op_time){ .op = op };
    api->note(stream, &at->start_s, &at->own_start_s);
}

void op_log_end(struct op_log *log, const struct device_api *api, struct stream *stream)
{
    if (!log || log->count == log->room)
        return;
    struct op_time *at = &log->at[log->count++];
    api->note(stream, &at->end_s, &at->own_end_s);
}
