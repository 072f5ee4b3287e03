/* Measures steps of eight ranks with random delays, with exchanges that wait for all ranks, a few
 * or none, and compares them with the prediction (sim/cost/waiting.h). Ranks are threads that sleep
 * up to `latest_s` before each step, much longer than the rest of the step. */
#include "base/clock.h"
#include "base/length.h"
#include "base/random.h"
#include "sim/cost/waiting.h"
#include "tests/exec/exchange/exchange_side.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RANKS = 8, STEPS = 64 };
static const double latest_s = 0.03;
static const struct exchange_tensor tensors[] = { { 64, 64, 1 } };

static const char *const exchanges[] = {
    "allreduce", "topk:0.1", "gossip:exp", "gossip:ring", "gossip:one-peer", "local:8",
};

static void be_late(int rank, int step)
{
    struct random rng = random_new(7, (uint64_t)(step * RANKS + rank));
    long late_ns = (long)(random_below(&rng, 1000) * latest_s * 1e6);
    nanosleep(&(struct timespec){ .tv_nsec = late_ns }, NULL);
}

static bool run_steps(void *job, const struct exchange_world *world)
{
    const char *const *word = job;
    struct exchange_side side;
    bool ok = exchange_side_open(&side, world, *word, tensors, 1, 1);
    for (int step = 0; step < STEPS && ok; step++) {
        be_late(world->rank, step);
        ok = exchange_side_descend(&side, step, 0.1, 1);
    }
    exchange_side_close(&side);
    return ok;
}

/* Measures the seconds of a step. */
static double measured_s(const char *word)
{
    double start_s = clock_now_s();
    if (!exchange_threads_run(RANKS, run_steps, &word))
        exit(1);
    return (clock_now_s() - start_s) / STEPS;
}

/* Predicts the time of a step. The mean delay is latest_s / 2, and the standard deviation of a
 * uniform distribution is its width / sqrt(12). */
static double expected_s(const char *word)
{
    struct err err = { 0 };
    struct exchange exchange;
    if (!exchange_read(word, &exchange, &err))
        exit(1);
    double averaging = 1.0 / exchange_cycle(&exchange);
    return latest_s * (0.5 + exchange_wait(&exchange, RANKS, averaging) / sqrt(12));
}

int main(void)
{
    printf("  %-18s %12s %12s\n", "exchange", "predicted", "measured, ms");
    for (size_t i = 0; i < LENGTH(exchanges); i++)
        printf("  %-18s %12.1f %12.1f\n", exchanges[i], 1e3 * expected_s(exchanges[i]),
               1e3 * measured_s(exchanges[i]));
    return 0;
}
