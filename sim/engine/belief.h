/* sim/engine/belief.h - what is believed of the step times of several runs, and what measured ones
 * teach about the others.
 *
 * Logarithms of times are jointly normal. Their errors are those of sim/engine/chances.h: a factor
 * for each class of a step's time (computing, tensor collectives ...), which all runs share as far
 * as they consist of it, and each run's own, class by class. Its own error of a class a run shares
 * with those that do the same there: products of the same shapes, collectives of the same group and
 * size. On the shipped runs plans that differ in pp alone are off by 1.4 % (vtrain_single, rms of
 * 8160 differences), in tp or microbatch, and so in shapes, by 14 and 11 %. SD_OF_SLICE is that of
 * fewer GPUs: the same plan on other numbers of data ranks is off by 1.7 % (the median of 7
 * sources, 3555 pairs), of which noise explains 1.4. Step times of 30 configurations that were
 * measured again scatter by 0.7 and 0.9 % (dgxc_h100, nemo2407_h100).
 * A measured time conditions the normal (Rasmussen and Williams 2006, A.2). */
#ifndef SIM_ENGINE_BELIEF_H
#define SIM_ENGINE_BELIEF_H

#include "sim/cost/hardware.h"
#include "sim/engine/time_parts.h"
#include "sim/plan/plan.h"

/* Standard deviations in log time. */
#define SD_OF_SLICE 0.01
#define SD_OF_NOISE 0.01
/* A plan is as good as the fastest when it takes so much longer: what runs cannot tell apart. */
#define CLOSE_TO_BEST 0.02

struct believed {
    double step_s; /* predicted */
    const struct time_parts *parts;
    const struct plan *plan; /* as it ran */
    int rival;               /* equal numbers: one plan, on whatever number of GPUs */
    bool is_slice;           /* on fewer GPUs than that rival */
};

enum { MOST_BELIEVED = 64, MOST_RIVALS = 16 };

/* The first `rivals` are those that compete. */
struct belief {
    int count, rivals;
    double mean[MOST_BELIEVED]; /* of log seconds */
    double cov[MOST_BELIEVED][MOST_BELIEVED];
};

void belief_begin(const struct system *system, const struct believed *runs, int count, int rivals,
                  struct belief *out);
/* A run was measured. */
void belief_learn(struct belief *belief, int run, double measured_s);

/* chance[rival]: that it is within CLOSE_TO_BEST of the fastest, itself included. */
void belief_chances(const struct belief *belief, double *chance);
/* The rival to take: the likeliest, and how likely. */
int belief_choice(const struct belief *belief, double *chance);
/* The chance that rival `a` is faster than `b`. */
double belief_prefers(const struct belief *belief, int a, int b);

/* The gain that runs promise before they are measured: the mean over the times they may show. */
struct outlook {
    double p_best; /* of the rival that is then chosen */
    double bits;   /* of which rival is the fastest, that are then known */
};
struct outlook belief_outlook(const struct belief *belief, const int *runs, int count);

/* Own standard deviations of a run, by class; [0]: of what is common to its classes. */
void belief_own_errors(const struct system *system, const struct believed *run,
                       double own[NUM_ERROR_PARTS]);
/* Whether two plans do the same in a class of a step's time, and so share their error there. */
bool plans_are_alike(const struct plan *a, const struct plan *b, int class);

#endif
