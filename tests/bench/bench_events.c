/* Compares the running time of the event engine with that of the search's recurrence, for plans of
 * GPT-3 175B on 1,024 GPUs of DGX H100. Times are CPU times of one thread, as the machine may be
 * busy, and the best of several runs. Instruction counts are over all stages. */
#include "base/clock.h"
#include "base/length.h"
#include "sim/engine/event_step.h"
#include "sim/plan/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const layouts[] = {
    "tp8 pp8 mb1 sp zero1",
    "tp8 pp16 mb1 sp zero1",
    "tp8 pp8 vpp6 mb1 sp zero1",
    "tp8 pp16 vpp6 mb1 sp zero1",
    "tp4 pp8 vpp12 mb1 sp zero1",
    "tp8 pp32 vpp3 mb1 sp zero1",
    "tp8 pp64 mb1 sp zero1 schedule=zb-h1",
    "tp8 pp64 mb1 sp zero1 recompute=full",
    "tp4 pp64 mb1 sp zero1",
    "tp8 pp64 mb1 sp zero1",
};
enum { NUM_LAYOUTS = LENGTH(layouts), REPEATS = 5 };

struct bench {
    struct system system;
    struct model model;
    struct plan plan;
};

static void check(bool ok, const struct err *err)
{
    if (ok)
        return;
    printf("%s: %s\n", err->where, err->msg);
    exit(1);
}

/* Each run has a new evaluator without cached costs. */
static double recurrence_s(const struct bench *bench, double *step_s)
{
    double best_s = HUGE_VAL;
    for (int i = 0; i < REPEATS; i++) {
        struct evaluator *evaluator = evaluator_new(&bench->system, &bench->model);
        double start_s = clock_thread_s();
        *step_s = evaluate_step_s(evaluator, &bench->plan);
        best_s = fmin(best_s, clock_thread_s() - start_s);
        evaluator_free(evaluator);
    }
    return best_s;
}

static double events_s(const struct bench *bench, double *step_s, int *instructions)
{
    double best_s = HUGE_VAL;
    for (int i = 0; i < REPEATS; i++) {
        struct evaluator *evaluator = evaluator_new(&bench->system, &bench->model);
        struct arena arena = { 0 };
        struct err err = { 0 };
        struct event_step step;
        double start_s = clock_thread_s();
        check(event_step_run(evaluator, &bench->model, &bench->plan, &arena, &step, &err), &err);
        best_s = fmin(best_s, clock_thread_s() - start_s);
        *step_s = step.step_s;
        *instructions = 0;
        for (int stage = 0; stage < bench->plan.pp; stage++)
            *instructions += step.schedule->ranks[stage].count;
        arena_release(&arena);
        evaluator_free(evaluator);
    }
    return best_s;
}

int main(void)
{
    struct bench bench;
    struct err err = { 0 };
    struct arena arena = { 0 };
    check(system_load("dgx-h100", "megatron-core", 1024, &bench.system, &err), &err);
    check(model_load("gpt3-175b", &bench.model, &err), &err);
    bench.model.batch = 1536;
    printf("%-28s %12s %10s %10s %10s %8s %9s\n", "plan", "instructions", "events ms", "recurr. ms",
           "ratio", "ns/instr", "step");
    for (int i = 0; i < NUM_LAYOUTS; i++) {
        double event_step_s, recurrence_step_s;
        int instructions;
        check(plan_parse(layouts[i], &arena, &bench.plan, &err), &err);
        check(plan_derive_data(&bench.plan, 1024, &err), &err);
        double events = events_s(&bench, &event_step_s, &instructions);
        double recurrence = recurrence_s(&bench, &recurrence_step_s);
        printf("%-28s %12d %10.2f %10.2f %9.1fx %8.0f %+8.2f%%\n", layouts[i], instructions,
               1e3 * events, 1e3 * recurrence, events / recurrence, 1e9 * events / instructions,
               100 * (event_step_s / recurrence_step_s - 1));
    }
    arena_release(&arena);
    system_release(&bench.system);
}
