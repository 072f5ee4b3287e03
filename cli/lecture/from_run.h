/* cli/lecture/from_run.h - "simsearch explain --from-run": the utilization of GPUs in a past or
 * planned run. Days are 8 T P/(N F U) with recompute and 6 T P/(N F U) without, for T tokens, P
 * parameters, N GPUs of F FLOP/s and utilization U. */
#ifndef CLI_LECTURE_FROM_RUN_H
#define CLI_LECTURE_FROM_RUN_H

#include "cli/lecture/lecture.h"

/* A run as papers report it. */
struct from_run {
    double params, tokens;
    int gpus;
    char gpu[48];
    int dtype;         /* enum dtype of matrix products; -1: not given */
    double days;       /* 0: to be computed */
    double u;          /* 0: to be computed */
    struct gpu device; /* the GPU with that name */
};

/* "params=175B tokens=300B gpus=1024 gpu=a100 days=34", or u=0.45 instead of days=; also dtype=. A
 * faulty word is ERR_USAGE, where = --from-run. */
bool from_run_read(const char *text, struct from_run *out, struct err *err);

/* Release the rows with lecture_release. */
struct lecture from_run_lecture(const struct from_run *run);

void explain_from_run(const struct options *options, struct err *err);

#endif
