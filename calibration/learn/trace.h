/* calibration/learn/trace.h - reads step times and kernels from traces of a GPU.
 *
 * Two formats: the JSON of PyTorch's profiler (Kineto, libkineto/src/output_json.cpp: "traceEvents"
 * with events "ph": "X" whose "cat" is "kernel" or, for steps, "user_annotation" with the name
 * ProfilerStep#N; times in microseconds), and the CSV of `nsys stats --report cuda_gpu_trace`
 * (columns Start (ns), Duration (ns), Device, Name).
 *
 * Steps are ProfilerStep annotations. Without them a step ends with the optimizer: kernels whose
 * name has "adam", in phases that are separated by at least a quarter of the longest pause between
 * two of them. If there are three steps or more, the first is left out. A collective is a kernel
 * whose name begins with nccl. If the trace has several GPUs, only the first is read. */
#ifndef CALIBRATION_LEARN_TRACE_H
#define CALIBRATION_LEARN_TRACE_H

#include "base/err.h"

#include <stdbool.h>

enum { MOST_TRACE_BYTES = 1 << 30, MOST_TRACE_COLLECTIVES = 12 };

/* Kernels of one kind of collective, such as "AllGather", in a step. */
struct trace_collective {
    char name[32];
    double seconds, count; /* mean per step */
};

/* Seconds of the mean step. compute + exposed + idle = the step. */
struct trace {
    const char *format; /* "kineto" or "nsys" */
    int steps;          /* number of steps that count */
    int warm_up;        /* 1 if the first step was left out */
    double step_s;      /* the median step */
    double compute_s;   /* time in which a kernel that is no collective runs */
    double exposed_s;   /* time in which only collectives run */
    double idle_s;      /* time in which no kernel runs */
    struct trace_collective collectives[MOST_TRACE_COLLECTIVES];
    int num_collectives;
};

/* Whether the file begins like one of the formats; false also if it cannot be read. */
bool trace_is(const char *path);
/* ERR_INPUT with FILE or FILE:LINE if the trace is faulty, or has no whole step or no kernels. */
bool trace_read(const char *path, struct trace *out, struct err *err);

#endif
