/* Measures how fast uneven stages, each with its own recompute, are found and proved: GPT-3 175B on
 * 1,024 H100s with Megatron-Core. They are compared with an exhaustive search of the even plans
 * with the same fixed words. Times are the best of a few runs; each search starts without cached
 * costs. */
#include "base/length.h"
#include "base/parallel.h"
#include "search/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *fix;
    double memory_bytes; /* memory limit; 0: the GPU's memory */
} cases[] = {
    { "pp64", 0 }, { "pp64", 20e9 }, { "pp32", 0 },    { "pp16", 0 }, { "pp16", 30e9 },
    { "pp8", 0 },  { "vpp1", 0 },    { "vpp1", 30e9 }, { NULL, 0 },
};

enum { REPEATS = 3 };

static void run(const struct search_request *request, struct search_result *result)
{
    struct err err = { 0 };
    if (search_run(request, result, &err))
        return;
    printf("%s: %s\n", err.where, err.msg);
    exit(1);
}

static double best_s(const struct search_request *request, struct search_result *result)
{
    run(request, result);
    double least_s = result->elapsed_s;
    for (int i = 1; i < REPEATS; i++) {
        search_result_release(result);
        run(request, result);
        least_s = fmin(least_s, result->elapsed_s);
    }
    return least_s;
}

static double step_s(const struct search_result *result)
{
    return result->num_top > 0 ? result->top[0].prediction.step_s : HUGE_VAL;
}

/* Whether the uneven answer is proved and no slower than the best even plan. */
static bool run_case(struct search_request request, int i)
{
    struct search_result even, uneven;
    request.fix = cases[i].fix;
    request.max_memory_bytes = cases[i].memory_bytes;
    request.method = "exhaustive";
    double even_s = best_s(&request, &even);
    request.method = "dp";
    request.uneven = request.recompute_mixes = true;
    double uneven_s = best_s(&request, &uneven);
    printf("%6s %6.0f %10.0f %9.0f %8.1f %9.3f %12.2e %9.0f %8.1f %9.3f  %s\n",
           cases[i].fix ? cases[i].fix : "-", cases[i].memory_bytes / 1e9, even.candidates,
           even.evaluated, 1e3 * even_s, step_s(&even), uneven.candidates, uneven.evaluated,
           1e3 * uneven_s, step_s(&uneven), uneven.proved_optimal ? "proved" : "NOT PROVED");
    bool is_good = uneven.proved_optimal && step_s(&uneven) <= step_s(&even);
    search_result_release(&even);
    search_result_release(&uneven);
    return is_good;
}

int main(void)
{
    struct system system;
    struct model model;
    struct err err = { 0 };
    if (!system_load("dgx-h100", "megatron-core", 1024, &system, &err) ||
        !model_load("gpt3-175b", &model, &err)) {
        printf("%s: %s\n", err.where, err.msg);
        return 1;
    }
    model.batch = 1536;
    struct search_request request = { .system = &system,
                                      .model = &model,
                                      .base = plan_default(),
                                      .top = 5,
                                      .jobs = parallel_cores() };
    printf("%6s %6s %10s %9s %8s %9s %12s %9s %8s %9s\n", "fixed", "GB", "even plans", "evaluated",
           "wall ms", "step s", "uneven plans", "evaluated", "wall ms", "step s");
    bool ok = true;
    for (int i = 0; i < LENGTH(cases); i++)
        ok = run_case(request, i) && ok;
    system_release(&system);
    return !ok;
}
