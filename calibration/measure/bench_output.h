/* calibration/measure/bench_output.h - reads the output of nccl-tests and of the OSU
 * micro-benchmarks. */
#ifndef CALIBRATION_MEASURE_BENCH_OUTPUT_H
#define CALIBRATION_MEASURE_BENCH_OUTPUT_H

#include "base/err.h"
#include "sim/collective/measured_curve.h"

/* Fills the whole curve except the fabric. The number of nodes is the number of different host
 * names. Out-of-place times are used; if a size is repeated, its first time is used. The output or
 * the file's name must contain the name of the collective. A faulty line gives ERR_INPUT with
 * err->where = "FILE:LINE". */
bool bench_output_read_nccl(const char *path, struct curve *out, struct err *err);

/* OSU prints neither ranks nor hosts, so `num_ranks` is given and one node is assumed. Latency
 * tests always have two ranks; their curve is POINT_TO_POINT. */
bool bench_output_read_osu(const char *path, int num_ranks, struct curve *out, struct err *err);

#endif
