/* cli/views/measured.h - compares a run with its prediction: as a whole, by kind of op, and by
 * instruction. */
#ifndef CLI_VIEWS_MEASURED_H
#define CLI_VIEWS_MEASURED_H

#include "cli/input/setup.h"
#include "exec/exchange/hostile.h"
#include "exec/run/session.h"
#include "sim/cost/piece.h"

/* Measured and predicted seconds per step, and the count, of one kind of op or instruction. */
struct beside_seconds {
    double count, measured_s, predicted_s;
};

struct measured {
    const struct options *options;
    const struct setup *setup;
    const struct prediction *prediction;
    const struct session_result *session;
    const struct timeline *predicted_timeline;
    const struct hostility *hostility;
    uint64_t seed;
    int num_ranks;
    double rate;   /* learning rate */
    bool compares; /* times are compared with the prediction; false: it is for another kind of
                      machine */
    /* Filled by measured_fill. */
    /* Median and percentiles of the timed steps, or of their means per period of the exchange. */
    double step_s, step_p10_s, step_p90_s;
    double mfu;
    double error;                               /* log(predicted / measured) */
    bool is_inside;                             /* within the prediction's 90 % interval */
    struct beside_seconds kinds[NUM_OP_KINDS];  /* over all ranks */
    struct beside_seconds opcodes[NUM_OPCODES]; /* over one rank per stage */
    double bubble_s, predicted_bubble_s; /* mean idle time of the compute lanes during the passes */
};

void measured_fill(struct measured *measured);
void measured_print_json(const struct measured *measured);
void measured_show(const struct measured *measured);

#endif
