/* sim/textbook/failure.h - how often a job fails, and the share of its time that remains for
 * training after checkpoints and failures.
 *
 * A failure loses the work since the last checkpoint and the time to restart. Every function is
 * pure. */
#ifndef SIM_TEXTBOOK_FAILURE_H
#define SIM_TEXTBOOK_FAILURE_H

struct textbook_failure {
    double mtbf_s;       /* M: mean time between failures of the whole job */
    double checkpoint_s; /* C: time that writing a checkpoint blocks training */
    double restart_s;    /* R: time to detect a failure, reschedule, load and warm up */
};

/* M of a job on `num_nodes` nodes, each of which has this failure rate. */
double textbook_mtbf_s(double failures_per_1000_node_days, int num_nodes);

/* The time between checkpoints that loses the least time, by Young's and by Daly's formula. */
double textbook_young_s(const struct textbook_failure *failure);
double textbook_daly_s(const struct textbook_failure *failure);

/* Effective training time ratio, 0..1: kept work divided by elapsed time, with a checkpoint every
 * `interval_s`. The linear form ignores failures during recovery and is therefore larger. */
double textbook_ettr_linear(const struct textbook_failure *failure, double interval_s);
double textbook_ettr_exact(const struct textbook_failure *failure, double interval_s);

#endif
