/* calibration/measure/bench_output.h - collectives as nccl-tests or the OSU micro-benchmarks
 * printed them.
 */
#ifndef CALIBRATION_MEASURE_BENCH_OUTPUT_H
#define CALIBRATION_MEASURE_BENCH_OUTPUT_H

#include "base/err.h"
#include "sim/cost/curve.h"

/* Fills the whole curve except the fabric; the number of nodes is that of different host names.
 * Times are the out-of-place ones; if a size is repeated, the first counts. The output or the
 * file's name must name the collective. A faulty line gives ERR_INPUT with err->where =
 * "FILE:LINE". */
bool bench_output_read_nccl(const char *path, struct curve *out, struct err *err);

/* OSU prints neither ranks nor hosts: `num_ranks` took part, and one node is assumed.
 * Latency tests of two ranks are POINT_TO_POINT whatever num_ranks is. */
bool bench_output_read_osu(const char *path, int num_ranks, struct curve *out, struct err *err);

#endif
