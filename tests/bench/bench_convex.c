/* Shows the loss per step of every gradient exchange on a convex problem
 * (tests/exec/exchange/logistic.h), with eight ranks as threads, one seed and decreasing rates. It
 * shows the loss above the optimum, and the bytes that all ranks sent per step; nothing is timed.
 * Then the constants of the convergence theory are fitted on the first steps of one or two methods.
 * With them the theory predicts the number of steps after which each method is equally close to the
 * optimum. This is done once with gradients of all samples, which differ only by the ranks' data,
 * and once with sixteen random samples. The second case is also drawn as a picture,
 * exchange-loss.svg, in the given folder. */
#include "base/length.h"
#include "calibration/fit/descent_fit.h"
#include "sim/cost/exchange.h"
#include "tests/bench/chart.h"
#include "tests/exec/exchange/exchange_side.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 8, STEPS = 1000, SHORT = 300, RATE = 1, FADES = 100 };
static const int shown[] = { 1, 10, 30, 100, 300, 1000 };
enum { NUM_SHOWN = LENGTH(shown) };

static const char *const words[] = {
    "allreduce",       "gossip:ring",   "gossip:grid", "gossip:exp",
    "gossip:one-peer", "local:4",       "local:16",    "pga:8:graph=ring",
    "aga:4",           "qsgd:4",        "topk:0.1",    "topk:0.1:memory=off",
    "ef21:0.1",        "neolithic:0.1", "powersgd:1",
};

enum { NUM_WORDS = LENGTH(words) };

/* The threads share these data. */
struct trial {
    const char *word;
    const struct logistic *problem;
    int batch; /* number of random samples; 0: all samples */
    double losses[STEPS], bytes;
};

static bool train(void *job, const struct exchange_world *world)
{
    struct trial *trial = job;
    static const struct exchange_tensor weights[] = { { 8, 8, 1 } };
    struct exchange_side side;
    double losses[STEPS];
    struct convex_run run = { .problem = trial->problem,
                              .steps = STEPS,
                              .rate = RATE,
                              .batch = trial->batch,
                              .fades = FADES,
                              .losses = losses };
    bool ok = exchange_side_open(&side, world, trial->word, weights, 1, 1) &&
              exchange_side_train(&side, &run);
    for (int i = 0; i < STEPS && world->rank == 0 && ok; i++)
        trial->losses[i] = losses[i];
    if (world->rank == 0)
        trial->bytes = run.sent_bytes / STEPS;
    exchange_side_close(&side);
    return ok;
}

/* --- theory --------------------------------------------------------------------------------- */

static const struct exchange_tensor weights[] = { { 8, 8, 1 } };
static const struct exchange_load load = { weights, 1, sizeof(float) };

static struct loss_run loss_run_of(const struct trial *trial, double heterogeneity)
{
    struct exchange exchange;
    struct err err = { 0 };
    if (!exchange_read(trial->word, &exchange, &err))
        exit(1);
    struct exchange_use use = exchange_use_of(&exchange, &load, RANKS);
    return (struct loss_run){ .name = trial->word,
                              .run = descent_run_of(&use, heterogeneity, RATE, FADES),
                              .losses = trial->losses,
                              .num_steps = SHORT };
}

/* Steps until the loss is reached. Single steps are noisy, so the mean of ten consecutive steps is
 * used. */
static int steps_measured(const struct trial *trial, double loss)
{
    enum { ROW = 10 };
    double sum = 0;
    for (int i = 0; i < STEPS; i++) {
        sum += trial->losses[i] - (i < ROW ? 0 : trial->losses[i - ROW]);
        if (sum / (i < ROW ? i + 1 : ROW) <= loss)
            return i;
    }
    return -1;
}

static void show(const struct trial *trial)
{
    printf("  %-22s", trial->word);
    for (int i = 0; i < NUM_SHOWN; i++)
        printf(" %8.1e", trial->losses[shown[i] - 1] - trial->problem->least);
    printf(" %10.0f\n", trial->bytes);
}

static void show_constants(const struct descent_fit *fit)
{
    for (int j = 0; j < NUM_DESCENT_CONSTANTS; j++)
        if (fit->is_fitted[j])
            printf("  %-8s %9.3g   %9.3g to %9.3g\n", descent_constant_names[j],
                   descent_constant_value(&fit->descent, (enum descent_constant)j),
                   fit->intervals[j].low, fit->intervals[j].high);
}

static void show_steps(const struct descent_fit *fit, const struct trial *trial,
                       double heterogeneity, double gap)
{
    struct loss_run run = loss_run_of(trial, heterogeneity);
    double loss = trial->problem->least + gap;
    double predicted = descent_steps_to(&fit->descent, &run.run, loss);
    int measured = steps_measured(trial, loss);
    printf("  %-22s %9.0f", trial->word, predicted);
    if (measured >= 0)
        printf(" %9d %8.2f\n", measured, predicted / measured);
    else
        printf("    > %d\n", STEPS);
}

/* Fits the constants on the first steps of the trials that `of` lists, and compares predicted with
 * measured numbers of steps. `gap` is the loss above the optimum that is to be reached.
 * `heterogeneity` is the share of the differences between the ranks' gradients that comes from
 * their data; it is 1 if gradients are computed on all samples. */
static bool judge(const struct trial *trials, const int *of, int count, double heterogeneity,
                  double gap)
{
    struct loss_run runs[NUM_WORDS];
    struct descent_fit fit;
    struct err err = { 0 };
    for (int i = 0; i < count; i++)
        runs[i] = loss_run_of(&trials[of[i]], heterogeneity);
    struct descent_request request = { runs, count, trials->problem->least, heterogeneity,
                                       trials->batch == 0 };
    if (!descent_fit(&request, &fit, &err)) {
        printf("  %s: %s\n", err.where, err.msg);
        return false;
    }
    printf("\nfitted on %d steps of", SHORT);
    for (int i = 0; i < count; i++)
        printf(" %s", trials[of[i]].word);
    printf("; median error %.1f %%; constants and their 90 %% intervals:\n", 100 * fit.error);
    show_constants(&fit);
    printf("  %-22s %9s %9s %8s\n", "steps to that gap", "predicted", "measured", "ratio");
    for (int i = 0; i < NUM_WORDS; i++)
        show_steps(&fit, &trials[i], heterogeneity, gap);
    return true;
}

static bool run_all(struct trial *trials, const struct logistic *problem, int batch)
{
    printf("\n  %-22s", "exchange, step");
    for (int i = 0; i < NUM_SHOWN; i++)
        printf(" %8d", shown[i]);
    printf(" %10s\n", "bytes");
    for (int i = 0; i < NUM_WORDS; i++) {
        trials[i] = (struct trial){ .word = words[i], .problem = problem, .batch = batch };
        if (!exchange_threads_run(RANKS, train, &trials[i]))
            return false;
        show(&trials[i]);
    }
    return true;
}

/* --- loss against time ------------------------------------------------------------------- */

/* Predicts the step time on eight nodes with 1 Gb/s each, where the 25.5 M gradients of ResNet-50
 * take 0.1 s to compute. Each node has eight tensor ranks, which exchange an eighth each, so each
 * node is one data rank, and all bytes between data ranks leave the node. */
static double step_s(const char *word)
{
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct system system;
    struct plan plan;
    char layout[64];
    snprintf(layout, sizeof layout, "tp8 dp8 dtype=fp32 exchange=%s", word);
    if (!system_load("p3-v100-16g", "torch-ddp", 64, &system, &err) ||
        !plan_parse(layout, &arena, &plan, &err)) {
        printf("%s: %s\n", err.where, err.msg);
        exit(1);
    }
    struct level *network = &system.cluster.levels[1];
    double nic_bytes_per_s = 1e9 / 8 / (8 * network->nics_per_gpu);
    network->channel_bytes_per_s *= nic_bytes_per_s / network->bytes_per_s;
    network->bytes_per_s = nic_bytes_per_s;
    struct exchange_tensor tensor = { 25.5e6 / 8 / 1024, 1024, 1 };
    struct exchange_load whole = { &tensor, 1, sizeof(float) };
    struct exchange_cost cost =
        exchange_cost(&system, &plan, &whole, 1.0 / exchange_cycle(&plan.exchange));
    system_release(&system);
    arena_release(&arena);
    return 0.1 + cost.gradients_s + cost.weights_s + cost.memory_s;
}

/* Adds the points of a line. The y value of a point is the loss above the optimum, averaged over
 * the last quarter of the steps so far. Each point is a twentieth further along than the previous
 * one. */
static int fill_line(const struct trial *trial, double *x, double *y)
{
    double seconds = step_s(trial->word);
    int count = 0;
    for (int end = 1; end <= STEPS; end += 1 + end / 20) {
        int first = end - 1 - end / 4;
        double sum = 0;
        for (int i = first; i < end; i++)
            sum += trial->losses[i] - trial->problem->least;
        x[count] = end * seconds;
        y[count++] = sum / (end - first);
    }
    return count;
}

static void draw(const struct trial *trials, const char *folder)
{
    static const int drawn[] = { 0, 1, 4, 5, 6, 10, 11 };
    enum { NUM_DRAWN = LENGTH(drawn) };
    static const double seconds[] = { 1, 3, 10, 30, 100, 300, 1000 };
    static const double gaps[] = { 0.001, 0.003, 0.01, 0.03, 0.1 };
    static double x[NUM_DRAWN][STEPS], y[NUM_DRAWN][STEPS];
    struct chart_line lines[NUM_DRAWN];
    struct text svg = { 0 };
    struct chart_panel panel = { "Eight ranks over 1 Gb/s: a convex problem",
                                 64,
                                 64,
                                 560,
                                 380,
                                 { "seconds", 1, 2000, true, seconds, 7 },
                                 { "loss above the optimum's", 1e-3, 0.2, true, gaps, 5 } };
    for (int i = 0; i < NUM_DRAWN; i++) {
        int count = fill_line(&trials[drawn[i]], x[i], y[i]);
        lines[i] = (struct chart_line){ trials[drawn[i]].word, x[i], y[i], count, i };
    }
    chart_begin(&svg, "Loss against time by exchange", 800, 500);
    chart_frame(&svg, &panel);
    chart_lines(&svg, &panel, lines, NUM_DRAWN);
    chart_end(&svg);
    chart_write(&svg, folder, "exchange-loss.svg");
    text_release(&svg);
}

int main(int argc, char **argv)
{
    static const int ring[] = { 1 }, one_peer[] = { 4 }, two[] = { 1, 10 };
    static struct trial trials[NUM_WORDS];
    struct arena arena = { 0 };
    struct logistic problem = logistic_new(RANKS, 100, 64, 2, 5, &arena);
    bool ok = run_all(trials, &problem, 0) && judge(trials, ring, 1, 1, 5e-4) &&
              judge(trials, one_peer, 1, 1, 5e-4) && judge(trials, two, 2, 1, 5e-4) &&
              run_all(trials, &problem, 16) && judge(trials, ring, 1, 0.2, 5e-3) &&
              judge(trials, two, 2, 0.2, 5e-3);
    if (ok && argc > 1)
        draw(trials, argv[1]);
    arena_release(&arena);
    return !ok;
}
