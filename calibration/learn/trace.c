/* Reads step times and kernel times from a GPU trace of PyTorch's profiler (Kineto) or of nsys. An
 * optimizer phase is the consecutive optimizer kernels at the end of a step. */
#include "calibration/learn/trace.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/statistics.h"
#include "calibration/rows/csv.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEAD_BYTES = 1 << 16 };
/* A pause between optimizer kernels separates two phases if it is longer than phase_share of the
 * longest such pause. If the longest is shorter than the fraction shortest_pause of the trace's
 * duration, the trace has one phase. */
static const double phase_share = 0.25, shortest_pause = 0.01;

/* --- events -------------------------------------------------------------------------------- */

struct kernel {
    double start_s, end_s;
    int collective; /* index of the trace's collective; -1: none */
    bool is_optimizer;
};

struct span {
    double start_s, end_s;
};

struct events {
    struct kernel *kernels;
    int num_kernels, room_kernels;
    struct span *steps;
    int num_steps, room_steps;
    char device[128]; /* device of the first kernel; kernels of other devices are ignored */
    struct trace *trace;
};

static bool has_word(const char *name, const char *word)
{
    for (; *name; name++) {
        size_t n = 0;
        while (word[n] && tolower((unsigned char)name[n]) == word[n])
            n++;
        if (!word[n])
            return true;
    }
    return false;
}

/* The index of a collective kernel's kind: ncclDevKernel_AllGather_RING_LL is "AllGather". */
static int collective_of(const char *name, struct trace *trace)
{
    if (strncmp(name, "nccl", 4) != 0)
        return -1;
    const char *kind = strchr(name, '_');
    kind = kind ? kind + 1 : name;
    size_t length = 0;
    while (length + 1 < sizeof trace->collectives[0].name && isalnum((unsigned char)kind[length]))
        length++;
    for (int i = 0; i < trace->num_collectives; i++)
        if (strncmp(trace->collectives[i].name, kind, length) == 0 &&
            trace->collectives[i].name[length] == '\0')
            return i;
    if (trace->num_collectives == MOST_TRACE_COLLECTIVES)
        return MOST_TRACE_COLLECTIVES - 1;
    memcpy(trace->collectives[trace->num_collectives].name, kind, length);
    return trace->num_collectives++;
}

static bool is_span(double start_s, double length_s)
{
    return isfinite(start_s) && isfinite(length_s) && start_s >= 0 && length_s >= 0;
}

static void add_kernel(struct events *to, const char *name, const char *device, double start_s,
                       double length_s)
{
    if (to->num_kernels == 0)
        snprintf(to->device, sizeof to->device, "%s", device);
    if (strncmp(to->device, device, sizeof to->device - 1) != 0 || !is_span(start_s, length_s))
        return;
    if (to->num_kernels == to->room_kernels) {
        to->room_kernels = to->room_kernels > 0 ? 2 * to->room_kernels : 1024;
        to->kernels = arena_grow(to->kernels, (size_t)to->room_kernels * sizeof *to->kernels);
    }
    to->kernels[to->num_kernels++] =
        (struct kernel){ start_s, start_s + length_s, collective_of(name, to->trace),
                         has_word(name, "adam") };
}

static void add_step(struct events *to, double start_s, double end_s)
{
    if (to->num_steps == to->room_steps) {
        to->room_steps = to->room_steps > 0 ? 2 * to->room_steps : 16;
        to->steps = arena_grow(to->steps, (size_t)to->room_steps * sizeof *to->steps);
    }
    to->steps[to->num_steps++] = (struct span){ start_s, end_s };
}

/* --- Kineto -------------------------------------------------------------------------------- */

static double number_of(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const char *string_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

static void add_event(const json_t *event, struct events *to)
{
    const char *category = string_of(event, "cat"), *name = string_of(event, "name");
    double start_s = number_of(event, "ts") * 1e-6, length_s = number_of(event, "dur") * 1e-6;
    if (strcmp(string_of(event, "ph"), "X") != 0)
        return;
    if (strcmp(category, "kernel") == 0) {
        char device[32];
        const json_t *args = json_object_get(event, "args");
        const json_t *id = json_object_get(args, "device");
        snprintf(device, sizeof device, "%lld", (long long)json_integer_value(id));
        add_kernel(to, name, device, start_s, length_s);
    } else if (strcmp(category, "user_annotation") == 0 &&
               strncmp(name, "ProfilerStep#", strlen("ProfilerStep#")) == 0 &&
               is_span(start_s, length_s))
        add_step(to, start_s, start_s + length_s);
}

static int line_of(const char *text, const char *at)
{
    int line = 1;
    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

/* Parses the events one by one, because the whole document may be too large to hold. */
static bool read_kineto(const char *path, const char *text, size_t length, struct events *to,
                        struct err *err)
{
    char where[300];
    const char *at = strstr(text, "\"traceEvents\"");
    at = at ? strchr(at, '[') : NULL;
    if (!at)
        return err_set(err, ERR_INPUT, path, "expected \"traceEvents\": a list");
    for (at++;; at++) {
        json_error_t fault;
        at += strspn(at, " \t\r\n,");
        if (*at == ']')
            return true;
        json_t *event =
            json_loadb(at, length - (size_t)(at - text), JSON_DISABLE_EOF_CHECK, &fault);
        if (!json_is_object(event)) {
            json_decref(event);
            snprintf(where, sizeof where, "%s:%d", path, line_of(text, at));
            return err_set(err, ERR_INPUT, where, "expected an event: the trace is truncated");
        }
        add_event(event, to);
        json_decref(event);
        at += fault.position - 1;
    }
}

/* --- nsys ---------------------------------------------------------------------------------- */

static const char nsys_head[] = "Start (ns)";

static int column_of(const struct csv_record *header, const char *name)
{
    for (int i = 0; i < header->count; i++)
        if (strcmp(header->field[i], name) == 0)
            return i;
    return -1;
}

/* nsys prints lines before the table. */
static bool read_nsys(const char *path, char *text, size_t length, struct events *to,
                      struct err *err)
{
    struct csv in = { path, text, text + length, 1 };
    struct csv_record *header = arena_grow(NULL, sizeof *header);
    struct csv_record *record = arena_grow(NULL, sizeof *record);
    bool ok = true;
    do
        ok = csv_read(&in, header, err);
    while (ok && column_of(header, nsys_head) < 0);
    int start = column_of(header, nsys_head), duration = column_of(header, "Duration (ns)");
    int name = column_of(header, "Name"), device = column_of(header, "Device");
    if (ok && (duration < 0 || name < 0))
        ok = err_set(err, ERR_INPUT, path, "expected the columns Duration (ns) and Name");
    while (ok && csv_read(&in, record, err)) {
        double start_ns, length_ns;
        if (record->count != header->count || !csv_number(record->field[start], &start_ns) ||
            !csv_number(record->field[duration], &length_ns))
            ok = csv_refuse(path, record->line, nsys_head, err,
                            "expected a row of the table: the trace is truncated");
        else if (record->field[name][0] != '[') /* "[CUDA memcpy DtoD]" is no kernel */
            add_kernel(to, record->field[name], device < 0 ? "" : record->field[device],
                       start_ns * 1e-9, length_ns * 1e-9);
    }
    free(header);
    free(record);
    return ok && err->code == ERR_NONE;
}

/* --- steps --------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    return numbers_order(((const struct kernel *)a)->start_s, ((const struct kernel *)b)->start_s);
}

static int by_step_start(const void *a, const void *b)
{
    return numbers_order(((const struct span *)a)->start_s, ((const struct span *)b)->start_s);
}

/* Adds the steps between the ends of the optimizer's phases. */
static void find_steps(struct events *of)
{
    double longest_s = 0, last_s = -1, phase_s = -1;
    for (int i = 0; i < of->num_kernels; i++) {
        if (!of->kernels[i].is_optimizer)
            continue;
        longest_s = last_s < 0 ? 0 : fmax(longest_s, of->kernels[i].start_s - last_s);
        last_s = of->kernels[i].end_s;
    }
    /* pauses within a single phase are short compared with the trace */
    double all_s = of->kernels[of->num_kernels - 1].end_s - of->kernels[0].start_s;
    if (longest_s < shortest_pause * all_s)
        return;
    last_s = -1;
    for (int i = 0; i < of->num_kernels; i++) {
        const struct kernel *kernel = &of->kernels[i];
        if (!kernel->is_optimizer)
            continue;
        if (last_s >= 0 && kernel->start_s - last_s > phase_share * longest_s) {
            if (phase_s >= 0)
                add_step(of, phase_s, last_s);
            phase_s = last_s;
        }
        last_s = kernel->end_s;
    }
    if (phase_s >= 0 && last_s > phase_s)
        add_step(of, phase_s, last_s);
}

/* Adds up, over the kernels in order of their starts, the time in which computing runs, and the
 * time in which anything runs. */
static void add_up(const struct events *of, double from_s, double to_s, struct trace *out)
{
    double compute_to_s = from_s, any_to_s = from_s, any_s = 0;
    out->compute_s = 0;
    for (int i = 0; i < of->num_kernels; i++) {
        const struct kernel *kernel = &of->kernels[i];
        double start_s = fmax(kernel->start_s, from_s), end_s = fmin(kernel->end_s, to_s);
        if (end_s <= start_s)
            continue;
        any_s += fmax(0, end_s - fmax(start_s, any_to_s));
        any_to_s = fmax(any_to_s, end_s);
        if (kernel->collective >= 0) {
            out->collectives[kernel->collective].seconds += end_s - start_s;
            out->collectives[kernel->collective].count++;
            continue;
        }
        out->compute_s += fmax(0, end_s - fmax(start_s, compute_to_s));
        compute_to_s = fmax(compute_to_s, end_s);
    }
    out->exposed_s = any_s - out->compute_s;
    out->idle_s = to_s - from_s - any_s;
}

static bool settle(const char *path, struct events *of, struct trace *out, struct err *err)
{
    if (of->num_kernels == 0)
        return err_set(err, ERR_INPUT, path, "expected kernels of a GPU; found none");
    qsort(of->kernels, (size_t)of->num_kernels, sizeof *of->kernels, by_start);
    if (of->num_steps == 0)
        find_steps(of);
    if (of->num_steps == 0)
        return err_set(err, ERR_INPUT, path,
                       "expected steps: annotations ProfilerStep#N, or two optimizer phases "
                       "(kernels with adam in their names)");
    qsort(of->steps, (size_t)of->num_steps, sizeof *of->steps, by_step_start);
    out->warm_up = of->num_steps >= 3;
    out->steps = of->num_steps - out->warm_up;
    double *lengths = arena_grow(NULL, (size_t)out->steps * sizeof *lengths);
    double from_s = of->steps[out->warm_up].start_s, to_s = of->steps[of->num_steps - 1].end_s;
    for (int i = 0; i < out->steps; i++)
        lengths[i] = of->steps[out->warm_up + i].end_s - of->steps[out->warm_up + i].start_s;
    out->step_s = numbers_median(lengths, out->steps);
    free(lengths);
    if (!(out->step_s > 0) || !(to_s > from_s))
        return err_set(err, ERR_INPUT, path, "expected steps that take time");
    add_up(of, from_s, to_s, out);
    double share = 1.0 / out->steps;
    out->compute_s *= share;
    out->exposed_s *= share;
    out->idle_s *= share;
    for (int i = 0; i < out->num_collectives; i++) {
        out->collectives[i].seconds *= share;
        out->collectives[i].count *= share;
    }
    return true;
}

/* --- files --------------------------------------------------------------------------------- */

static bool begins_as_kineto(const char *head)
{
    head += strspn(head, " \t\r\n");
    return *head == '{' &&
           (strstr(head, "\"traceEvents\"") || strstr(head, "\"deviceProperties\""));
}

bool trace_is(const char *path)
{
    char head[HEAD_BYTES + 1];
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) /* a pipe can be read only once */
        return false;
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    size_t length = fread(head, 1, HEAD_BYTES, file);
    fclose(file);
    head[length] = '\0';
    return begins_as_kineto(head) || (strstr(head, nsys_head) && strstr(head, "Duration (ns)"));
}

bool trace_read(const char *path, struct trace *out, struct err *err)
{
    size_t length = 0;
    struct events events = { .trace = out };
    *out = (struct trace){ .step_s = -1 };
    char *text = file_read(path, MOST_TRACE_BYTES, &length, err);
    if (!text)
        return false;
    bool is_kineto = begins_as_kineto(text);
    out->format = is_kineto ? "kineto" : "nsys";
    bool ok = is_kineto ? read_kineto(path, text, length, &events, err)
                        : read_nsys(path, text, length, &events, err);
    ok = ok && settle(path, &events, out, err);
    free(events.kernels);
    free(events.steps);
    free(text);
    return ok;
}
