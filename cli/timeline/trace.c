/* Writes a simulated or measured step as JSON for Perfetto and chrome://tracing. */
#include "cli/timeline/trace.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>

enum { NS_PER_US = 1000, MESSAGES_APART = 1 << 24 };

struct tracer {
    const struct timeline *timeline;
    struct text out;
    const char *separator; /* written before the next event */
    const char *label;     /* prefix of the processes' names, before "stage" */
    int first_process;     /* process number of stage 0; one file may hold two timelines */
    int stage;
};

static const char *const lane_names[NUM_ALL_LANES] = {
    [LANE_COMPUTE] = "compute",
    [LANE_SEND_DOWN] = "send activations",
    [LANE_RECV_DOWN] = "receive activations",
    [LANE_SEND_UP] = "send gradients",
    [LANE_RECV_UP] = "receive gradients",
    [LANE_DATA] = "data parallel",
    [LANE_TURNED_SEND_DOWN] = "send activations, upward chunks",
    [LANE_TURNED_RECV_DOWN] = "receive activations, upward chunks",
    [LANE_TURNED_SEND_UP] = "send gradients, upward chunks",
    [LANE_TURNED_RECV_UP] = "receive gradients, upward chunks",
};

/* Whole nanoseconds, so that adjacent slices do not overlap after rounding. */
static long long ns_of(double time_s)
{
    return llround(time_s * 1e9);
}

static void add_us(struct text *out, const char *key, long long ns)
{
    text_add(out, ",\"%s\":%lld.%03lld", key, ns / NS_PER_US, ns % NS_PER_US);
}

/* Writes the beginning of an event, {"ph":"X","pid":0,"tid":1,"ts":2.000, without the closing
 * brace. */
static void begin(struct tracer *t, char phase, int lane, long long start_ns)
{
    text_add(&t->out, "%s\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d", t->separator, phase,
             t->first_process + t->stage, lane);
    t->separator = ",";
    add_us(&t->out, "ts", start_ns);
}

/* Adds an instruction's name like "F3.1": its text form without peer and edge. */
static void add_name(struct text *out, const struct instr *instr)
{
    text_add(out, ",\"name\":\"%s", opcode_infos[instr->op].text);
    if (instr->chunk >= 0)
        text_add(out, "%d", instr->chunk);
    if (instr->microbatch >= 0)
        text_add(out, ".%d", instr->microbatch);
    text_add(out, "\"");
}

static void add_slice(struct tracer *t, int i)
{
    const struct instr *instr = &t->timeline->schedule->ranks[t->stage].at[i];
    struct interval time = t->timeline->ranks[t->stage][i];
    long long start_ns = ns_of(time.start_s);
    long long end_ns = ns_of(time.end_s);
    enum lane lane = instr_lane(instr);
    if (end_ns == start_ns)
        return;
    begin(t, 'X', (int)lane, start_ns);
    add_us(&t->out, "dur", end_ns - start_ns);
    add_name(&t->out, instr);
    text_add(&t->out, ",\"cat\":\"%s\",\"args\":{\"instruction\":%d}}",
             lane == LANE_COMPUTE ? "compute" : "communication", i);
}

/* --- arrows ------------------------------------------------------------------------------- */

static bool is_send(enum opcode op)
{
    return op == INSTR_SEND_ACT || op == INSTR_SEND_GRAD;
}

/* The number of a message, equal for sender and receiver: it follows from the chunk that produces
 * the message, and from the direction. */
static long long message_id(const struct schedule *schedule, const struct instr *instr)
{
    const struct schedule_shape *shape = &schedule->shape;
    bool is_up = instr->op == INSTR_SEND_GRAD || instr->op == INSTR_RECV_GRAD;
    long long chunk = instr->chunk + (is_up ? shape->num_stages * shape->chunks_per_stage : 0);
    return chunk * shape->num_microbatches + instr->microbatch;
}

/* Adds an arrow from the beginning of a send to the beginning of its receive. */
static void add_arrow(struct tracer *t, int i)
{
    const struct instr *instr = &t->timeline->schedule->ranks[t->stage].at[i];
    struct interval time = t->timeline->ranks[t->stage][i];
    bool ends = instr_is_receive(instr->op);
    if ((!ends && !is_send(instr->op)) || ns_of(time.end_s) == ns_of(time.start_s))
        return;
    begin(t, ends ? 'f' : 's', (int)instr_lane(instr), ns_of(time.start_s));
    text_add(&t->out, ",\"name\":\"message\",\"cat\":\"message\",\"id\":%lld%s}",
             message_id(t->timeline->schedule, instr) +
                 (long long)t->first_process * MESSAGES_APART,
             ends ? ",\"bp\":\"e\"" : "");
}

/* --- memory ------------------------------------------------------------------------------- */

static void add_count(struct tracer *t, double time_s, double bytes)
{
    begin(t, 'C', LANE_COMPUTE, ns_of(time_s));
    text_add(&t->out, ",\"name\":\"activations\",\"args\":{\"bytes\":%.0f}}", bytes);
}

static void add_counter(struct tracer *t, double peak_bytes)
{
    const struct instrs *list = &t->timeline->schedule->ranks[t->stage];
    const struct interval *times = t->timeline->ranks[t->stage];
    int most = schedule_in_flight(t->timeline->schedule, t->stage);
    int held = 0;
    add_count(t, 0, 0);
    for (int i = 0; i < list->count; i++) {
        enum opcode op = list->at[i].op;
        if (op == INSTR_FORWARD)
            add_count(t, times[i].start_s, ++held * peak_bytes / most);
        else if (instr_ends_backward(op))
            add_count(t, times[i].end_s, --held * peak_bytes / most);
    }
}

/* --- the file ----------------------------------------------------------------------------- */

static void add_thread(struct tracer *t, int lane)
{
    begin(t, 'M', lane, 0);
    text_add(&t->out, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", lane_names[lane]);
    begin(t, 'M', lane, 0);
    text_add(&t->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}", lane);
}

static void add_process(struct tracer *t)
{
    begin(t, 'M', LANE_COMPUTE, 0);
    text_add(&t->out, ",\"name\":\"process_name\",\"args\":{\"name\":\"%sstage %d\"}}", t->label,
             t->stage);
    begin(t, 'M', LANE_COMPUTE, 0);
    text_add(&t->out, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}",
             t->first_process + t->stage);
    int lanes = t->timeline->schedule->rule ? NUM_ALL_LANES : NUM_LANES;
    for (int lane = 0; lane < lanes; lane++)
        add_thread(t, lane);
}

static void add_stage(struct tracer *t, double activations_bytes)
{
    int count = t->timeline->schedule->ranks[t->stage].count;
    add_process(t);
    for (int i = 0; i < count; i++) {
        add_slice(t, i);
        add_arrow(t, i);
    }
    add_counter(t, activations_bytes);
}

static void add_timeline(struct tracer *t, const struct timeline *timeline, int first_process,
                         const char *label, const struct prediction *prediction)
{
    t->timeline = timeline;
    t->first_process = first_process;
    t->label = label;
    for (t->stage = 0; t->stage < timeline->schedule->shape.num_stages; t->stage++)
        add_stage(t, prediction->stages[t->stage].activations_bytes);
}

static bool write_file(const char *path, struct tracer *t, const json_t *about, struct err *err)
{
    char *other = json_text(about, 0);
    text_add(&t->out, "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":%s}\n", other);
    bool ok = file_write(path, t->out.at, t->out.length, err);
    free(other);
    text_release(&t->out);
    return ok;
}

bool trace_write(const char *path, const struct timeline *timeline,
                 const struct prediction *prediction, const json_t *about, struct err *err)
{
    struct tracer t = { .separator = "" };
    text_add(&t.out, "{\"traceEvents\":[");
    add_timeline(&t, timeline, 0, "", prediction);
    return write_file(path, &t, about, err);
}

bool trace_write_both(const char *path, const struct timeline *predicted,
                      const struct timeline *measured, const struct prediction *prediction,
                      const json_t *about, struct err *err)
{
    struct tracer t = { .separator = "" };
    text_add(&t.out, "{\"traceEvents\":[");
    add_timeline(&t, predicted, 0, "predicted ", prediction);
    add_timeline(&t, measured, predicted->schedule->shape.num_stages, "measured ", prediction);
    return write_file(path, &t, about, err);
}
