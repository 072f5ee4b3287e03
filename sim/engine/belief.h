/* sim/engine/belief.h - a joint distribution of the step times of several runs; a measured run
 * changes the expected times of the others.
 *
 * Logarithms of step times are jointly normal. A run's error has two parts, as in
 * sim/engine/chances.h. Each class of a step's time (computing, tensor collectives ...) has a
 * factor that all runs share, weighted by the class's share of the run's step. In addition each run
 * has an error of its own in each class. Two runs share this error too if their work in the class
 * is the same (products of the same shapes, collectives of the same group and size): fully if their
 * numbers of pipeline stages are equal, else by SHARE_OF_DEPTHS. Measured runs support this. The
 * errors of two plans differ by 2 to 4 % (rms) if the plans differ only in recompute
 * (bridge_sft_memory, bridge_moonlight_memory, torchao_float8); by 9 % if they differ in pp, by 5 %
 * in tp, and by 10 % in both (bloom_prequel). For each pair of plans of one stratum (same model and
 * system) of bloom_prequel, the belief gives the probability that one is faster. With
 * SHARE_OF_DEPTHS 1, 0.7 and 0.5, these probabilities have a logarithmic loss of 0.46, 0.38 and
 * 0.38; when they were 0.9 or more, 92, 95 and 97 % were right. (In vtrain_single the share is 1,
 * but its times are sums of layers that were traced once.) SD_OF_SLICE is the deviation of a run on
 * fewer GPUs: errors of the same plan on other numbers of data ranks differ by 1.7 % (the median of
 * 7 sources, 3555 pairs), of which noise explains 1.4 %. SD_OF_NOISE: step times of 30
 * configurations that were measured again scatter by 0.7 and 0.9 % (dgxc_h100, nemo2407_h100). A
 * measured time conditions the normal distribution (Rasmussen and Williams 2006, A.2).
 *
 * Evidence is runs of other models on the same stack and GPU that were measured before. They share
 * the classes' factors. They also share a run's own error in a class if the plans' work in it is
 * the same: fully if the models' products are equally wide, else by SHARE_OF_WIDTHS. Residuals of
 * held-out runs with equal plans correlate by 0.24 between models of different widths and by 0.21
 * between models of one width in bigscience, by 0.19 and 0.36 in llm-foundry, and by 0.06 and 0.63
 * in vtrain. SHARE_OF_WIDTHS is about the mean ratio of the first of these correlations to the
 * second, weighted by the correlations. */
#ifndef SIM_ENGINE_BELIEF_H
#define SIM_ENGINE_BELIEF_H

#include "models/model.h"
#include "sim/cost/hardware.h"
#include "sim/engine/time_parts.h"
#include "sim/plan/plan.h"

/* Standard deviations of log time. */
#define SD_OF_SLICE 0.01
#define SD_OF_NOISE 0.01
/* A plan counts as fastest if it takes at most this share longer than the fastest; measurements
 * cannot distinguish such plans. */
#define CLOSE_TO_BEST 0.02

struct believed {
    double step_s; /* predicted */
    const struct time_parts *parts;
    const struct plan *plan; /* the plan as it ran */
    /* number of the competing plan; runs of one plan on different numbers of GPUs have the same
     * number */
    int rival;
    bool is_slice; /* whether it ran on fewer GPUs than the plan is meant for */
    /* the model of a run that is evidence; NULL: the model of the rivals, the plans that compete to
     * be the fastest */
    const struct model *model;
};

enum { MOST_BELIEVED = 64, MOST_RIVALS = 16, MOST_EVIDENCE = 128 };
#define SHARE_OF_WIDTHS 0.3
#define SHARE_OF_DEPTHS 0.7

/* Measured runs of other jobs; arrays are borrowed. At most MOST_EVIDENCE are used. */
struct evidence {
    const struct believed *runs;
    const double *measured_s;
    int count;
    const struct model *model; /* of the rivals */
};

/* The first `rivals` runs are the plans that compete. */
struct belief {
    int count, rivals;
    double mean[MOST_BELIEVED]; /* mean of the logarithm of the seconds */
    double cov[MOST_BELIEVED][MOST_BELIEVED];
};

/* `evidence` may be NULL. */
void belief_begin(const struct system *system, const struct believed *runs, int count, int rivals,
                  const struct evidence *evidence, struct belief *out);
/* Updates the belief after a run was measured. */
void belief_learn(struct belief *belief, int run, double measured_s);

/* chance[i] becomes the probability that plan i is the fastest or within CLOSE_TO_BEST of it. */
void belief_chances(const struct belief *belief, double *chance);
/* The plan with the highest of these probabilities, and that probability. */
int belief_choice(const struct belief *belief, double *chance);
/* The probability that plan `a` is faster than plan `b`. */
double belief_prefers(const struct belief *belief, int a, int b);

/* A plan is advised instead of the running one only if it is faster with at least this probability.
 * On the measured runs of tests/calibration/test_tuned.c, a higher threshold keeps the running plan
 * more often; it then misses more of the best plans than it avoids bad ones. */
#define SURE_GAIN 0.65
/* The plan to run if plan `present` runs now (-1: none does): of the present plan and of the plans
 * that are faster than it with a probability of at least SURE_GAIN, the one that is most likely the
 * fastest. *chance is as in belief_choice. */
int belief_advice(const struct belief *belief, int present, double *chance);

/* The expected benefit of further runs that are not measured yet: its mean over the step times that
 * they may show. */
struct outlook {
    double p_best; /* probability that the plan chosen after them (belief_choice) is the fastest */
    double bits;   /* information gained about which plan is the fastest */
};
struct outlook belief_outlook(const struct belief *belief, const int *runs, int count);

/* A run's own standard deviations by class; [0] is common to all classes. */
void belief_own_errors(const struct system *system, const struct believed *run,
                       double own[NUM_ERROR_PARTS]);
/* Whether the work of two plans in a class of a step's time is the same, so that they share their
 * error in it. */
bool plans_are_alike(const struct plan *a, const struct plan *b, int class);

#endif
