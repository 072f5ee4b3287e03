/* tests/calibration/regret_plot.h - draws the regret of search methods over the number of scores
 * and over time. */
#ifndef TESTS_CALIBRATION_REGRET_PLOT_H
#define TESTS_CALIBRATION_REGRET_PLOT_H

#include "base/text.h"
#include "tests/calibration/regret.h"

struct plot_line {
    const char *name;
    const struct regret_run *runs;
    int num_runs;
};

/* A method that proves the optimum: the numbers of step times and peaks that it computed, and its
 * running time. */
struct proof {
    const char *name;
    double scores, peaks, core_s;
};

/* Draws three panels as an SVG: median and quartiles of regret against scores, the fraction of runs
 * within 1 % against scores, and the median against time with the proofs. `what` is in the
 * title. */
void regret_plot(const char *what, const struct plot_line *lines, int num_lines,
                 const struct proof *proofs, int num_proofs, struct text *svg);

#endif
