#include "exec/stopwatch.h"

#include "base/clock.h"

static void note_time(void *args)
{
    double **at = args;
    **at = clock_now_s();
}

void stopwatch_note(const struct device_api *api, struct stream *stream, double *at)
{
    api->call(stream, note_time, &at, sizeof at);
}

/* Which row a note goes into. */
struct op_note {
    struct op_time *at;
};

static void note_begin(void *args)
{
    struct op_time *at = ((struct op_note *)args)->at;
    at->start_s = clock_now_s();
    at->own_start_s = clock_thread_s();
}

static void note_end(void *args)
{
    struct op_time *at = ((struct op_note *)args)->at;
    at->own_end_s = clock_thread_s();
    at->end_s = clock_now_s();
}

void op_log_begin(struct op_log *log, const struct device_api *api, struct stream *stream,
                  const struct op *op)
{
    if (!log || log->count == log->room)
        return;
    struct op_note note = { &log->at[log->count] };
    *note.at = (struct op_time){ .op = op };
    api->call(stream, note_begin, &note, sizeof note);
}

void op_log_end(struct op_log *log, const struct device_api *api, struct stream *stream)
{
    if (!log || log->count == log->room)
        return;
    struct op_note note = { &log->at[log->count++] };
    api->call(stream, note_end, &note, sizeof note);
}
