/* calibration/learn/train_log.h - what the logs of training frameworks say of their steps.
 *
 * A format is a row: the words of its step lines, and the number behind each word. The lines are
 * those that the frameworks' own code prints: Megatron-LM training_log (megatron/training/
 * training.py), Megatron-Bridge training_log (training/utils/train_utils.py), torchtitan
 * MetricsProcessor.log (components/metrics.py), DeepSpeed PipelineEngine.train_batch (runtime/pipe/
 * engine.py) and ThroughputTimer (utils/timer.py), and the Trainer's last line of transformers. */
#ifndef CALIBRATION_LEARN_TRAIN_LOG_H
#define CALIBRATION_LEARN_TRAIN_LOG_H

#include "base/arena.h"
#include "base/err.h"

enum { MOST_LOG_BYTES = 256 << 20, FEWEST_LOG_STEPS = 3 };

struct train_log {
    const char *format; /* "megatron"; names are in log_formats */
    /* Medians of the steps that count; -1: not in the log. train_log_step_s converts a throughput
     * to a time. */
    double step_s, tokens_per_s_per_gpu, samples_per_s;
    double memory_bytes; /* the most that any rank had reserved or, failing that, allocated; -1 */
    double last_loss;    /* of the last finite one; NaN: none */
    int steps;           /* number of steps that count */
    int warm_up, stragglers, bad, repeats, restarts; /* steps left out, by reason */
    int layers, hidden, seq, batch; /* from the arguments at its head; 0: not there */
};

struct log_format {
    const char *name, *source;
    const char *marks[2];         /* words that every step line has; NULL: one is enough */
    const char *step;             /* the number behind it counts steps */
    const char *seconds;          /* a step's time ... */
    double seconds_unit;          /* ... in these */
    const char *tokens, *samples; /* per second: of a GPU; of all */
    const char *loss;
    const char *memory;
    double memory_unit;
};
extern const struct log_format log_formats[];
extern const int num_log_formats;

/* ERR_INPUT with FILE or FILE:LINE when no format fits, or fewer than FEWEST_LOG_STEPS steps count.
 */
bool train_log_read(const char *path, struct train_log *out, struct err *err);

/* Seconds of a step of `batch` sequences of `seq` tokens on `gpus`; -1: it does not say. */
double train_log_step_s(const struct train_log *log, double batch, double seq, int gpus);

#endif
