/* Compares the speed of integer programming and of the dynamic program for dividing layers: GPT-3
 * 175B on 1,024 H100s with Megatron-Core, recompute chosen per stage, and so little memory that
 * some layers must be recomputed. First, for each number of stages, the least surrogate cost (sum
 * of the stages' passes + (microbatches - 1) x the longest) of one plan is found and proved: by the
 * dynamic program, by the bounded integer program, by the integer program without an upper bound on
 * the longest pass (at most 10 s), and with at most three types of stages. Then both methods search
 * the space of 64 stages. Times are the best of a few runs. */
#include "base/clock.h"
#include "base/length.h"
#include "base/parallel.h"
#include "search/milp/milp.h"
#include "search/search.h"
#include "search/uneven/fronts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *layout;
    double memory_bytes;
} points[] = {
    { "tp8 pp8 dp16 mb1 sp zero1 recompute=block:0", 32e9 },
    { "tp8 pp16 dp8 mb1 sp zero1 recompute=block:0", 20e9 },
    { "tp8 pp32 dp4 mb1 sp zero1 recompute=block:0", 14e9 },
    { "tp8 pp64 dp2 mb1 sp zero1 recompute=block:0", 14e9 },
};

enum { REPEATS = 3 };

static void check(bool ok, const struct err *err)
{
    if (ok)
        return;
    printf("%s: %s\n", err->where, err->msg);
    exit(1);
}

static struct search_request new_request(const struct system *system, const struct model *model)
{
    return (struct search_request){ .system = system,
                                    .model = model,
                                    .base = plan_default(),
                                    .uneven = true,
                                    .recompute_mixes = true,
                                    .top = 5,
                                    .jobs = parallel_cores() };
}

/* --- one point -------------------------------------------------------------------------------- */

struct timed {
    double wall_s, surrogate_s;
    bool is_proved;
    int recomputed; /* recomputed layers of all stages in the integer program's division */
};

static int count_recomputed(const struct division_problem *problem, const struct division *division)
{
    int recomputed = 0;
    for (int stage = 0; stage < problem->num_stages; stage++)
        recomputed += problem->stages[stage].at[division->choice[stage]].recomputed;
    return recomputed;
}

static struct timed by_dynamic(const struct divided_point *point)
{
    struct arena arena = { 0 };
    double start_s = clock_now_s();
    int *layers = ARENA_ARRAY(&arena, int, (size_t)point->plan->pp);
    struct fronts fronts = fronts_new(point->expansion.table, &surrogate, HUGE_VAL, &arena);
    struct timed timed = { .surrogate_s = fronts_best_s(&fronts, layers), .is_proved = true };
    timed.wall_s = clock_now_s() - start_s;
    arena_release(&arena);
    return timed;
}

static struct timed by_program(const struct divided_point *point)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct program_limits limits = { .time_s = 10 };
    struct divisions found;
    double start_s = clock_now_s();
    struct division_problem problem = milp_problem(point, &arena);
    check(divisions_best(&problem, 1, &limits, &arena, &found, &err), &err);
    struct timed timed = { .wall_s = clock_now_s() - start_s,
                           .surrogate_s = found.count > 0 ? found.at[0].surrogate_s : HUGE_VAL,
                           .is_proved = found.is_proved,
                           .recomputed =
                               found.count > 0 ? count_recomputed(&problem, &found.at[0]) : 0 };
    arena_release(&arena);
    return timed;
}

static struct timed without_guess(const struct divided_point *point)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct program_limits limits = { .time_s = 10 };
    struct program_result result;
    struct excluded none = { 0 };
    double start_s = clock_now_s();
    struct division_problem problem = milp_problem(point, &arena);
    int *choice = ARENA_ARRAY(&arena, int, (size_t)problem.num_stages);
    check(division_within(&problem, &none, HUGE_VAL, &limits, &arena, choice, &result, &err), &err);
    struct timed timed = { .wall_s = clock_now_s() - start_s,
                           .surrogate_s =
                               result.value ? division_surrogate_s(&problem, choice) : HUGE_VAL,
                           .is_proved = result.status == PROGRAM_OPTIMAL };
    arena_release(&arena);
    return timed;
}

static struct timed best_of(struct timed (*run)(const struct divided_point *point),
                            const struct divided_point *point)
{
    struct timed best = run(point);
    for (int i = 1; i < REPEATS && best.wall_s < 1; i++) {
        struct timed again = run(point);
        best.wall_s = fmin(best.wall_s, again.wall_s);
    }
    return best;
}

static void show(const char *name, struct timed timed)
{
    printf("  %s %8.1f ms %9.4f s%s", name, 1e3 * timed.wall_s, timed.surrogate_s,
           timed.is_proved ? "" : " (not proved)");
}

/* Whether the dynamic and the integer program agree, and the integer program proves its answer
 * within 2 s. */
static bool run_point(const struct system *system, const struct model *model, int i)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct prepared prepared;
    struct plan plan;
    struct search_request request = new_request(system, model);
    check(search_prepare(&request, &arena, &prepared, &err) &&
              plan_parse(points[i].layout, &arena, &plan, &err),
          &err);
    prepared.system.gpu.memory_bytes = points[i].memory_bytes;
    struct evaluator *evaluator = evaluator_new(&prepared.system, model);
    struct stage_request stages = { .model = model,
                                    .plan = &plan,
                                    .memory_bytes = points[i].memory_bytes,
                                    .limit_s = HUGE_VAL,
                                    .step_s = system->stack.host.step_s };
    double start_s = clock_now_s();
    struct stage_table table = stage_table_new(evaluator, &stages, &arena);
    double table_s = clock_now_s() - start_s;
    struct divided_point point = { .search = &prepared.search,
                                   .plan = &plan,
                                   .evaluator = evaluator,
                                   .expansion = { .table = &table, .limit_s = HUGE_VAL } };
    struct timed dynamic = best_of(by_dynamic, &point);
    struct timed program = best_of(by_program, &point);
    printf("pp%-3d %3.0f GB %3d of %d layers recomputed  table %6.1f ms", plan.pp,
           points[i].memory_bytes / 1e9, program.recomputed, model->layers, 1e3 * table_s);
    show("dp", dynamic);
    show("milp", program);
    show("unbounded", best_of(without_guess, &point));
    prepared.request.stage_types = 3;
    show("3 types", best_of(by_program, &point));
    printf("\n");
    evaluator_free(evaluator);
    arena_release(&arena);
    return program.is_proved && program.wall_s < 2 &&
           fabs(program.surrogate_s / dynamic.surrogate_s - 1) < 1e-6;
}

/* --- a space ---------------------------------------------------------------------------------- */

static void run_space(const struct system *system, const struct model *model, const char *method)
{
    struct search_request request = new_request(system, model);
    struct search_result result;
    struct err err = { 0 };
    request.method = method;
    request.fix = "pp64 vpp1";
    request.max_memory_bytes = 14e9;
    double least_s = HUGE_VAL;
    for (int i = 0; i < REPEATS; i++) {
        check(search_run(&request, &result, &err), &err);
        least_s = fmin(least_s, result.elapsed_s);
        if (i < REPEATS - 1)
            search_result_release(&result);
    }
    printf("%-5s all plans with pp64, 14 GB: %8.1f ms, step %.4f s, %s, gap to the lower bound "
           "%.3f %%\n",
           method, 1e3 * least_s, result.num_top > 0 ? result.top[0].prediction.step_s : HUGE_VAL,
           result.proved_optimal ? "proved" : "not proved", 100 * search_gap(&result));
    search_result_release(&result);
}

int main(void)
{
    struct system system;
    struct model model;
    struct err err = { 0 };
    check(system_load("dgx-h100", "megatron-core", 1024, &system, &err) &&
              model_load("gpt3-175b", &model, &err),
          &err);
    model.batch = 1536;
    bool ok = true;
    for (int i = 0; i < LENGTH(points); i++)
        ok = run_point(&system, &model, i) && ok;
    run_space(&system, &model, "dp");
    run_space(&system, &model, "milp");
    system_release(&system);
    return !ok;
}
