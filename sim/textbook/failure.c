/* Mean time between failures, best interval between checkpoints and the share of time that is kept,
 * by published formulas. C is the time of a checkpoint, M the mean time between failures, R the
 * time of a restart, t the interval. */
#include "sim/textbook/failure.h"

#include "base/units.h"

#include <math.h>

/* Nodes fail independently, so their failure rates add. */
double textbook_mtbf_s(double failures_per_1000_node_days, int num_nodes)
{
    double failures_per_day = failures_per_1000_node_days / 1000 * num_nodes;
    return DAY_S / failures_per_day;
}

/* sqrt(2 C M): the interval t that minimises C/t (writing checkpoints) + t/(2M) (lost work), with C
 * the time of a checkpoint and M the mean time between failures. Young 1974. */
double textbook_young_s(const struct textbook_failure *failure)
{
    return sqrt(2 * failure->checkpoint_s * failure->mtbf_s);
}

/* sqrt(2 C M) [1 + x/3 + x^2/9] - C with x = sqrt(C / 2M), and M once C >= 2M. Daly 2006. */
double textbook_daly_s(const struct textbook_failure *failure)
{
    if (failure->checkpoint_s >= 2 * failure->mtbf_s)
        return failure->mtbf_s;
    double x = sqrt(failure->checkpoint_s / (2 * failure->mtbf_s));
    return textbook_young_s(failure) * (1 + x / 3 + x * x / 9) - failure->checkpoint_s;
}

/* 1 / (1 + C/t + (t/2 + R)/M): per second of work, C/t goes into checkpoints, and every M seconds
 * half an interval t and a restart R are lost. */
double textbook_ettr_linear(const struct textbook_failure *failure, double interval_s)
{
    double writing = failure->checkpoint_s / interval_s;
    double losing = (interval_s / 2 + failure->restart_s) / failure->mtbf_s;
    return 1 / (1 + writing + losing);
}

/* t / E, where E = M e^{R/M} (e^{(t+C)/M} - 1) is the expected time until t + C has passed without
 * a failure, if failures are a Poisson process and may also hit restarts. Daly 2006. */
double textbook_ettr_exact(const struct textbook_failure *failure, double interval_s)
{
    double mtbf_s = failure->mtbf_s;
    double attempt_s = interval_s + failure->checkpoint_s;
    double expected_s = mtbf_s * exp(failure->restart_s / mtbf_s) * expm1(attempt_s / mtbf_s);
    return interval_s / expected_s;
}
