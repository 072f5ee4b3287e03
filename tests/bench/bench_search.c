/* Measures the speed of searches: GPT-3 175B on DGX H100 with Megatron-Core. The reference is a
 * plain loop in one thread over the same candidates, with a full prediction of every plan that
 * breaks no rule (struct plan_rule). `exhaustive` reuses costs that plans share; `bnb` also skips
 * plans by bounds, and must find the same plan. Each line of the table is measured in its own
 * process, so that its peak memory is known. */
#include "base/clock.h"
#include "base/length.h"
#include "base/parallel.h"
#include "search/search.h"
#include "search/space.h"
#include "search/walk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    int num_gpus;
    double batch; /* sequences */
} cases[] = { { 1024, 1536 }, { 16384, 1536 }, { 131072, 1536 }, { 131072, 12288 } };

struct reference {
    struct evaluator *evaluator;
    double fits, fastest_s;
};

static bool predict(void *context, const struct plan *plan)
{
    struct reference *reference = context;
    struct prediction prediction = evaluate(reference->evaluator, plan);
    if (!prediction.fits)
        return true;
    reference->fits++;
    reference->fastest_s = fmin(reference->fastest_s, prediction.step_s);
    return true;
}

static void ignore(void *context, const struct plan_rule *rule, double count)
{
    (void)context, (void)rule, (void)count;
}

static struct reference run_reference(const struct search_request *request)
{
    struct reference reference = { evaluator_new(request->system, request->model), 0, HUGE_VAL };
    struct arena arena = { 0 };
    struct space space;
    struct err err = { 0 };
    struct space_request asked = { .model = request->model,
                                   .num_gpus = request->system->num_gpus,
                                   .base = &request->base,
                                   .system = request->system };
    struct visitor visitor = { predict, ignore, &reference };
    if (space_new(&asked, &arena, &space, &err))
        for (size_t block = 0; block < space_num_blocks(&space); block++)
            space_walk_block(&space, block, &visitor);
    evaluator_free(reference.evaluator);
    arena_release(&arena);
    return reference;
}

static double peak_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

enum { REPEATS = 7 };

/* Returns the shortest time of a few searches. */
static double search_s(const struct search_request *request, struct search_result *result)
{
    double best_s = HUGE_VAL;
    for (int i = 0; i < REPEATS; i++) {
        struct err err = { 0 };
        if (i > 0)
            search_result_release(result);
        if (!search_run(request, result, &err)) {
            printf("%s: %s\n", err.where, err.msg);
            exit(1);
        }
        best_s = fmin(best_s, result->elapsed_s);
    }
    return best_s;
}

static void load_case(int i, struct system *system, struct model *model)
{
    struct err err = { 0 };
    if (!system_load("dgx-h100", "megatron-core", cases[i].num_gpus, system, &err) ||
        !model_load("gpt3-175b", model, &err)) {
        printf("%s: %s\n", err.where, err.msg);
        exit(1);
    }
    model->batch = cases[i].batch;
}

static double reference_s(const struct search_request *request, struct reference *plain)
{
    double best_s = HUGE_VAL;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double start_s = clock_now_s();
        *plain = run_reference(request);
        best_s = fmin(best_s, clock_now_s() - start_s);
    }
    return best_s;
}

static bool agree(const struct reference *plain, const struct search_result *all,
                  const struct search_result *bnb)
{
    bool counts = plain->fits == all->evaluated && all->candidates == bnb->candidates &&
                  all->num_top == bnb->num_top;
    return counts && (plain->fits == 0 || (plain->fastest_s == all->lower_bound_s &&
                                           plain->fastest_s == bnb->lower_bound_s &&
                                           plan_equal(&all->top[0].plan, &bnb->top[0].plan)));
}

static void run_case(int i)
{
    struct system system;
    struct model model;
    load_case(i, &system, &model);
    struct search_request request = {
        .system = &system, .model = &model, .base = plan_default(), .top = 10, .jobs = 1
    };
    struct search_result all, bnb;
    request.method = "exhaustive";
    double one_s = search_s(&request, &all);
    search_result_release(&all);
    request.jobs = parallel_cores();
    double all_s = search_s(&request, &all);
    request.method = "bnb";
    double bnb_s = search_s(&request, &bnb);
    double searched_mib = peak_mib();
    struct reference plain;
    double plain_s = reference_s(&request, &plain);
    bool agrees = agree(&plain, &all, &bnb);
    printf("%7d %6.0f %10.0f %9.0f %8.1f %12.0f %8.2fx %8.2fx %9.0f %8.1f %8.2fx %8.1f %s\n",
           cases[i].num_gpus, model.batch, all.candidates, all.evaluated, 1e3 * all_s,
           all.evaluated / all_s, plain_s / one_s, plain_s / all_s, bnb.evaluated, 1e3 * bnb_s,
           plain_s / bnb_s, searched_mib, agrees ? "" : "DIFFERS");
    search_result_release(&all);
    search_result_release(&bnb);
    system_release(&system);
    exit(agrees ? 0 : 1);
}

int main(void)
{
    printf("%7s %6s %10s %9s %8s %12s %9s %9s %9s %8s %9s %8s\n", "GPUs", "batch", "candidates",
           "evaluated", "wall ms", "evaluated/s", "1 job", "all jobs", "bnb eval.", "wall ms",
           "all jobs", "MiB");
    printf("(1 job, all jobs: speedup over predicting each plan in full in one thread; all jobs: "
           "%d)\n",
           parallel_cores());
    bool ok = true;
    for (int i = 0; i < LENGTH(cases); i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            run_case(i);
        int status = 1;
        ok = child > 0 && waitpid(child, &status, 0) == child && status == 0 && ok;
    }
    return !ok;
}
