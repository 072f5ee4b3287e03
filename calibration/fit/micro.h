/* calibration/fit/micro.h - micro-benchmarks: one operation of a GPU, or one collective of a
 * group. */
#ifndef CALIBRATION_FIT_MICRO_H
#define CALIBRATION_FIT_MICRO_H

#include "base/arena.h"
#include "calibration/fit/fit_table.h"
#include "models/op.h"

struct micro {
    struct system *system;
    double measured_s;
    bool is_collective;
    struct op op;               /* the op, if it is no collective */
    enum collective collective; /* the collective, over all GPUs of the system */
    double bytes;
};
struct micros {
    struct micro *at;
    int count;
};

/* Rows of a file of calibration/measured that pass the filters; rows without a time, and rows for
 * which simsearch has no formula, are left out. `system` is one GPU of the cluster and stack of
 * `rows`; collectives get systems of their own in the arena. Columns:
 *   products     m, n, k, dtype, layout, and time_us or tflops
 *   collectives  op, bytes, nodes, gpus, time_us
 *   ops          op, shape (256x16x1024x64), dtype, bytes, flops, time_us */
typedef bool micros_load(const char *path, const struct fit_rows *rows, struct system *system,
                         struct arena *arena, struct micros *out, struct err *err);
micros_load micros_load_products, micros_load_collectives, micros_load_ops;

double micro_s(const struct micro *micro);

#endif
