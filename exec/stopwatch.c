#include "exec/stopwatch.h"

#include <time.h>

double stopwatch_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void note_time(void *args)
{
    double **at = args;
    **at = stopwatch_now_s();
}

void stopwatch_note(const struct device_api *api, struct stream *stream, double *at)
{
    api->call(stream, note_time, &at, sizeof at);
}

void op_log_begin(struct op_log *log, const struct device_api *api, struct stream *stream,
                  const struct op *op)
{
    if (!log || log->count == log->room)
        return;
    log->at[log->count] = (struct op_time){ .op = op };
    stopwatch_note(api, stream, &log->at[log->count].start_s);
}

void op_log_end(struct op_log *log, const struct device_api *api, struct stream *stream)
{
    if (!log || log->count == log->room)
        return;
    stopwatch_note(api, stream, &log->at[log->count].end_s);
    log->count++;
}
