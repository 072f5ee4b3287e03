/* calibration/learn/train_log.h - reads step times and other numbers from the logs of training
 * frameworks.
 *
 * Each format is a row with the words of its step lines; the number after each word is read. The
 * lines are printed by the frameworks' own code: Megatron-LM training_log (megatron/training/
 * training.py), Megatron-Bridge training_log (training/utils/train_utils.py), torchtitan
 * MetricsProcessor.log (components/metrics.py), DeepSpeed PipelineEngine.train_batch (runtime/pipe/
 * engine.py) and ThroughputTimer (utils/timer.py), and the last line of transformers' Trainer. The
 * settings at a log's head are from Megatron's list of arguments, DeepSpeedConfig.print
 * (runtime/config.py) and Trainer.train (trainer.py). */
#ifndef CALIBRATION_LEARN_TRAIN_LOG_H
#define CALIBRATION_LEARN_TRAIN_LOG_H

#include "base/arena.h"
#include "base/err.h"
#include "calibration/learn/trace.h"

enum { MOST_LOG_BYTES = 256 << 20, FEWEST_LOG_STEPS = 3 };

struct train_log {
    const char *format; /* such as "megatron"; log_formats has the names */
    /* Medians over the steps that count; -1: not in the log. train_log_step_s converts a throughput
     * to a time. */
    double step_s, tokens_per_s_per_gpu, samples_per_s;
    /* largest reserved memory of any rank or, if not printed, allocated memory; -1: not in the
     * log */
    double memory_bytes;
    double last_loss;                                /* the last finite loss; NaN: none */
    int steps;                                       /* number of steps that count */
    int warm_up, stragglers, bad, repeats, restarts; /* number of steps left out, by reason */
    /* set if the log is a trace; otherwise its number of steps is 0 */
    struct trace trace;
    int layers, hidden, seq, batch; /* from the arguments at the log's head; 0: not there */
};

struct log_format {
    const char *name, *source;
    const char *marks[2]; /* words that every step line has; the second may be NULL */
    const char *step;     /* word before the number of the step */
    const char *seconds;  /* word before a step's time */
    double seconds_unit;  /* unit of that time, in seconds */
    /* words before tokens per second and GPU, and before samples per second of all GPUs */
    const char *tokens, *samples;
    const char *loss;
    const char *memory;
    double memory_unit;
};
extern const struct log_format log_formats[];
extern const int num_log_formats;

/* Reads a log, or a trace (trace.h). ERR_INPUT with FILE or FILE:LINE if no format fits, or if
 * fewer than FEWEST_LOG_STEPS steps of a log count. */
bool train_log_read(const char *path, struct train_log *out, struct err *err);

/* Seconds of a step of `batch` sequences of `seq` tokens on `gpus`; -1 if the log does not say. */
double train_log_step_s(const struct train_log *log, double batch, double seq, int gpus);

#endif
