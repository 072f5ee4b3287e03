/* calibration/measure/bench_output.h - reads the output of nccl-tests and of the OSU
 * micro-benchmarks. */
#ifndef CALIBRATION_MEASURE_BENCH_OUTPUT_H
#define CALIBRATION_MEASURE_BENCH_OUTPUT_H

#include "base/err.h"
#include "sim/cost/curve.h"

/* Fills the whole curve except the fabric. The number of nodes is the number of different host
 * names. Out-of-place times are used; of a repeated size the first. The output or the file's name
 * must contain the name of the collective. A faulty line gives ERR_INPUT with err->where =
 * "FILE:LINE". */
bool bench_output_read_nccl(const char *path, struct curve *out, struct err *err);

/* OSU prints neither ranks nor hosts, so `num_ranks` is given and one node is assumed. Latency
 * tests of two ranks are POINT_TO_POINT whatever num_ranks is. */
bool bench_output_read_osu(const char *path, int num_ranks, struct curve *out, struct err *err);

#endif
