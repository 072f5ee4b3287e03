/* Reads the step time and other numbers from logs of Megatron-LM, Megatron-Bridge, torchtitan,
 * DeepSpeed and transformers' Trainer. Steps after a start, slow steps and bad steps are left out
 * of the medians. */
#include "calibration/learn/train_log.h"

#include "base/file.h"
#include "base/length.h"
#include "base/statistics.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A step longer than the median by more than this factor is left out: it was delayed by a
 * checkpoint or a slow rank. */
static const double straggling = 1.5;
/* RANK_WINDOW: the line of another rank is matched with this many latest steps, as ranks may print
 * late. Steps beyond MOST_LOG_STEPS are ignored. */
enum { RANK_WINDOW = 2, MOST_LOG_STEPS = 1 << 20 };
static const double mib = 1024.0 * 1024.0;

// clang-format off
const struct log_format log_formats[] = {
    { "bridge", "Megatron-Bridge and NeMo: \"Step Time : 4.21s GPU utilization: 512.0MODEL_TFLOP/s/GPU\"",
      { "Step Time : ", "GPU utilization: " }, NULL, "Step Time : ", 1, NULL, NULL, NULL, NULL, 0 },
    { "megatron", "Megatron-LM: \" iteration 20/ 100 | ... elapsed time per iteration (ms): 8301.2 |\"",
      { "iteration ", "elapsed time per iteration (ms): " }, "iteration ", "elapsed time per iteration (ms): ", 1e-3,
      NULL, NULL, "lm loss: ", NULL, 0 },
    { "torchtitan", "torchtitan: \"step: 10 loss: 7.1 grad_norm: 1.2 memory: 50.10GiB(63.2%) tps: 7,001 ...\"",
      { "step: ", "tps: " }, "step: ", NULL, 0, "tps: ", NULL, "loss: ", "memory: ", 1024.0 * 1024.0 * 1024.0 },
    { "deepspeed-pipe", "DeepSpeed's pipeline engine: \"steps: 10 loss: 2.1 iter time (s): 1.2 samples/sec: 50.1\"",
      { "steps: ", "iter time (s): " }, "steps: ", "iter time (s): ", 1, NULL, NULL, "loss: ", NULL, 0 },
    { "deepspeed", "DeepSpeed: \"epoch=0/micro_step=8/global_step=4, RunningAvgSamplesPerSec=..., CurrSamplesPerSec=...\"",
      { "global_step=", "CurrSamplesPerSec=" }, "global_step=", NULL, 0, NULL, "CurrSamplesPerSec=", NULL,
      "MaxMemAllocated=", 1024.0 * 1024.0 * 1024.0 },
    { "hf", "transformers' Trainer, at its end: \"{'train_runtime': 100.0, ... 'train_steps_per_second': 0.5 ...}\"",
      { "'train_runtime': ", "'train_steps_per_second': " }, NULL, NULL, 0, NULL, "'train_samples_per_second': ",
      "'train_loss': ", NULL, 0 },
};
// clang-format on
const int num_log_formats = LENGTH(log_formats);

/* --- lines --------------------------------------------------------------------------------- */

/* Removes colours: ESC [ ... letter. */
static void drop_colours(char *line)
{
    char *to = line;
    for (const char *from = line; *from; from++) {
        if (from[0] == '\033' && from[1] == '[') {
            while (*from && !isalpha((unsigned char)*from))
                from++;
            if (!*from)
                break;
            continue;
        }
        *to++ = *from;
    }
    *to = '\0';
}

/* The number after a word, without commas of thousands; -1 if there is none. NaN and infinities are
 * read. */
static double number_behind(const char *line, const char *word)
{
    char digits[40];
    size_t n = 0;
    const char *at = word ? strstr(line, word) : NULL;
    if (!at)
        return -1;
    at += strlen(word);
    while (*at == ' ')
        at++;
    for (; n + 1 < sizeof digits && (isalnum((unsigned char)*at) || strchr("+-.,", *at)) && *at;
         at++)
        if (*at != ',' || !isdigit((unsigned char)at[1]))
            digits[n++] = *at;
        else
            continue;
    digits[n] = '\0';
    char *end;
    double value = strtod(digits, &end);
    return end == digits ? -1 : value;
}

static bool is_step_of(const struct log_format *format, const char *line)
{
    return strstr(line, format->marks[0]) && (!format->marks[1] || strstr(line, format->marks[1]));
}

static const struct log_format *format_of(const char *line)
{
    for (int i = 0; i < num_log_formats; i++)
        if (is_step_of(&log_formats[i], line))
            return &log_formats[i];
    return NULL;
}

/* --- steps --------------------------------------------------------------------------------- */

struct step {
    double number; /* number of the step; -1: not printed */
    double value;  /* seconds, or a throughput */
    bool is_bad;   /* not a number, or skipped */
};

struct steps {
    struct step *at;
    int count, room;
    int segment; /* index of the first step after the last restart */
};

static double value_of(const struct log_format *format, const char *line)
{
    if (format->seconds)
        return number_behind(line, format->seconds) * format->seconds_unit;
    return number_behind(line, format->tokens ? format->tokens : format->samples);
}

/* If several ranks print the same step, the slowest rank's value is used. */
static bool merge_rank(struct steps *steps, const struct step *step, bool is_time,
                       struct train_log *out)
{
    int first =
        steps->count - RANK_WINDOW > steps->segment ? steps->count - RANK_WINDOW : steps->segment;
    for (int i = first; i < steps->count && step->number >= 0; i++) {
        struct step *known = &steps->at[i];
        if (known->number != step->number)
            continue;
        known->value = is_time ? fmax(known->value, step->value) : fmin(known->value, step->value);
        known->is_bad = known->is_bad || step->is_bad;
        out->repeats++;
        return true;
    }
    return false;
}

static void add_step(struct steps *steps, const struct step *step, bool is_time,
                     struct train_log *out)
{
    if (merge_rank(steps, step, is_time, out) || steps->count == MOST_LOG_STEPS)
        return;
    if (steps->count > steps->segment && step->number >= 0 &&
        step->number < steps->at[steps->count - 1].number) {
        out->restarts++;
        steps->segment = steps->count;
    }
    if (steps->count == steps->room) {
        steps->room = steps->room > 0 ? 2 * steps->room : 64;
        steps->at = arena_grow(steps->at, (size_t)steps->room * sizeof *steps->at);
    }
    steps->at[steps->count++] = *step;
    /* The first step after a start also compiles and allocates. */
    if (steps->count - 1 == steps->segment) {
        steps->at[steps->count - 1].is_bad = true;
        out->warm_up++;
    }
}

static void read_step(const struct log_format *format, const char *line, struct steps *steps,
                      struct train_log *out)
{
    struct step step = { number_behind(line, format->step), value_of(format, line), false };
    double loss = number_behind(line, format->loss);
    double memory = number_behind(line, format->memory) * format->memory_unit;
    bool has_loss = format->loss && strstr(line, format->loss);
    bool is_skipped = number_behind(line, "number of skipped iterations: ") > 0 ||
                      number_behind(line, "number of nan iterations: ") > 0;
    if (!(step.value > 0) || !isfinite(step.value))
        return;
    step.is_bad = is_skipped || (has_loss && !isfinite(loss));
    out->bad += step.is_bad;
    if (has_loss && isfinite(loss))
        out->last_loss = loss;
    if (format->memory && isfinite(memory))
        out->memory_bytes = fmax(out->memory_bytes, memory);
    add_step(steps, &step, format->seconds != NULL, out);
}

/* Reads a line of Megatron's list of arguments, "  num_layers ........................ 32", of
 * DeepSpeed's similar list, or of the Trainer's first lines. */
static void read_argument(const char *line, struct train_log *out)
{
    static const struct {
        const char *name;
        size_t at;
    } known[] = {
        { "num_layers", offsetof(struct train_log, layers) },
        { "hidden_size", offsetof(struct train_log, hidden) },
        { "seq_length", offsetof(struct train_log, seq) },
        { "global_batch_size", offsetof(struct train_log, batch) },
        { "train_batch_size", offsetof(struct train_log, batch) },
    };
    static const char trainer[] =
        "Total train batch size (w. parallel, distributed & accumulation) = ";
    const char *name = line;
    const char *dots = strstr(line, " ..");
    double batch = number_behind(line, trainer);
    if (batch > 0 && batch < 1e9)
        out->batch = (int)batch;
    for (; dots && name < dots; name++)
        for (size_t i = 0; i < LENGTH(known); i++)
            if (strncmp(name, known[i].name, strlen(known[i].name)) == 0 &&
                name + strlen(known[i].name) == dots && (name == line || name[-1] == ' ')) {
                const char *value = dots + 1 + strspn(dots + 1, ".");
                *(int *)(void *)((char *)out + known[i].at) = atoi(value);
            }
}

/* Reads a line of Megatron: "memory (MB) | allocated: A | max allocated: B | reserved: C | max
 * reserved: D". */
static void read_memory(const char *line, struct train_log *out)
{
    if (strstr(line, "memory (MB) |"))
        out->memory_bytes = fmax(out->memory_bytes, number_behind(line, "max reserved: ") * mib);
}

/* --- medians ------------------------------------------------------------------------------- */

static double middle(const struct steps *steps, bool is_time, struct train_log *out)
{
    double *values = arena_grow(NULL, (size_t)(steps->count + 1) * sizeof *values);
    int n = 0;
    for (int i = 0; i < steps->count; i++)
        if (!steps->at[i].is_bad)
            values[n++] = steps->at[i].value;
    double found = n > 0 ? numbers_median(values, n) : -1;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        double ratio = is_time ? values[i] / found : found / values[i];
        if (ratio <= straggling)
            values[kept++] = values[i];
    }
    out->stragglers = n - kept;
    out->steps = kept;
    found = kept > 0 ? numbers_median(values, kept) : -1;
    free(values);
    return found;
}

static bool settle(const char *path, const struct log_format *format, const struct steps *steps,
                   int lines, struct train_log *out, struct err *err)
{
    char where[300];
    double *to = format->seconds  ? &out->step_s
                 : format->tokens ? &out->tokens_per_s_per_gpu
                                  : &out->samples_per_s;
    *to = middle(steps, format->seconds != NULL, out);
    snprintf(where, sizeof where, "%s:%d", path, lines);
    if (out->steps >= FEWEST_LOG_STEPS)
        return true;
    return err_set(err, ERR_INPUT, where,
                   "expected %d steps or more after the warm-up; found %d: the log is truncated",
                   FEWEST_LOG_STEPS, out->steps);
}

/* Reads the rate of transformers' Trainer, which prints it once, at the end, for all steps. */
static bool settle_whole(const char *line, const struct log_format *format, struct train_log *out)
{
    double per_s = number_behind(line, format->marks[1]);
    out->samples_per_s = number_behind(line, format->samples);
    out->last_loss = number_behind(line, format->loss);
    out->step_s = per_s > 0 ? 1 / per_s : -1;
    out->steps = (int)fmin(1e9, per_s * number_behind(line, format->marks[0]) + 0.5);
    return per_s > 0;
}

/* Reads all lines; `found` is the format of the first step line. */
static int read_lines(char *text, const struct log_format **found, struct steps *steps,
                      bool *is_whole, struct train_log *out)
{
    int lines = 0;
    for (char *line = text, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        lines++;
        drop_colours(line);
        read_argument(line, out);
        read_memory(line, out);
        const struct log_format *format = format_of(line);
        if (format && !format->step && !format->seconds) {
            *is_whole = settle_whole(line, format, out) || *is_whole;
            *found = format;
        } else if (format && (!*found || *found == format)) {
            *found = format;
            read_step(format, line, steps, out);
        }
    }
    return lines;
}

bool train_log_read(const char *path, struct train_log *out, struct err *err)
{
    const struct log_format *format = NULL;
    struct steps steps = { 0 };
    bool is_whole = false;
    *out = (struct train_log){ .step_s = -1,
                               .tokens_per_s_per_gpu = -1,
                               .samples_per_s = -1,
                               .memory_bytes = -1,
                               .last_loss = (double)NAN };
    if (trace_is(path)) {
        bool is_read = trace_read(path, &out->trace, err);
        out->format = is_read ? out->trace.format : "";
        out->step_s = out->trace.step_s;
        out->steps = out->trace.steps;
        out->warm_up = out->trace.warm_up;
        return is_read;
    }
    char *text = file_read(path, MOST_LOG_BYTES, NULL, err);
    if (!text)
        return false;
    int lines = read_lines(text, &format, &steps, &is_whole, out);
    bool ok = is_whole;
    if (!format)
        err_set(err, ERR_INPUT, path,
                "expected step lines of Megatron-LM, Megatron-Bridge, torchtitan or DeepSpeed, or "
                "the last lines of a Trainer's log; found none in %d lines",
                lines);
    else if (!is_whole)
        ok = settle(path, format, &steps, lines, out, err);
    out->format = format ? format->name : "";
    free(steps.at);
    free(text);
    return ok;
}

double train_log_step_s(const struct train_log *log, double batch, double seq, int gpus)
{
    if (log->step_s > 0)
        return log->step_s;
    if (log->tokens_per_s_per_gpu > 0)
        return batch * seq / (log->tokens_per_s_per_gpu * gpus);
    return log->samples_per_s > 0 ? batch / log->samples_per_s : -1;
}
