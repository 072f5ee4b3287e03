/* Shows the idle time of each pipeline stage. */
#include "cli/views/idle_view.h"

#include "sim/engine/simulate.h"

#include <math.h>

/* The idle time of each stage of a plan. */
struct idle {
    double step_s;
    double *idle_s;
    double *share; /* [stage] idle fraction of the step in whole per cent */
    int num_stages;
};

static struct idle idle_of(const struct setup *setup, const struct plan *plan, double step_s,
                           struct arena *arena)
{
    struct evaluator *evaluator = evaluator_new(&setup->system, &setup->model);
    size_t stages = (size_t)plan->pp;
    struct idle idle = { .step_s = step_s,
                         .idle_s = ARENA_ARRAY(arena, double, stages),
                         .share = ARENA_ARRAY(arena, double, stages),
                         .num_stages = plan->pp };
    evaluate_idle(evaluator, plan, idle.idle_s);
    evaluator_free(evaluator);
    for (int i = 0; i < idle.num_stages; i++)
        idle.share[i] = round(100 * idle.idle_s[i] / idle.step_s);
    return idle;
}

static double imbalance_of(const struct idle *idle)
{
    double most_s = 0, sum_s = 0;
    for (int i = 0; i < idle->num_stages; i++) {
        double busy_s = idle->step_s - idle->idle_s[i];
        most_s = fmax(most_s, busy_s);
        sum_s += busy_s;
    }
    return most_s * idle->num_stages / sum_s;
}

void idle_set_json(json_t *object, const struct setup *setup, const struct plan *plan,
                   double step_s)
{
    struct arena arena = { 0 };
    struct idle idle = idle_of(setup, plan, step_s, &arena);
    json_t *stages = json_array();
    for (int i = 0; i < idle.num_stages; i++)
        json_array_append_new(stages, json_real(idle.idle_s[i]));
    json_object_set_new(object, "idle_s_by_stage", stages);
    json_object_set_new(object, "imbalance", json_real(imbalance_of(&idle)));
    arena_release(&arena);
}

static bool is_worth_telling(const struct idle *idle)
{
    double least = HUGE_VAL, most = -HUGE_VAL;
    for (int i = 0; i < idle->num_stages; i++) {
        least = fmin(least, idle->idle_s[i]);
        most = fmax(most, idle->idle_s[i]);
    }
    return most - least >= 0.05 * idle->step_s;
}

/* Index after the last of consecutive stages that have the same percentage as stage `first`. */
static int end_of_run(const struct idle *idle, int first)
{
    int end = first + 1;
    while (end < idle->num_stages && idle->share[end] == idle->share[first])
        end++;
    return end;
}

static void add_run(struct text *out, const struct idle *idle, int first, int end)
{
    const char *comma = first > 0 ? ", " : "";
    if (end - first == 1)
        text_add(out, "%sstage %d %.0f %%", comma, first, fabs(idle->share[first]));
    else
        text_add(out, "%sstages %d-%d %.0f %%", comma, first, end - 1, fabs(idle->share[first]));
}

void idle_add_words(struct text *out, const struct setup *setup, const struct plan *plan,
                    double step_s, bool all_stages)
{
    enum { FEW_RUNS = 5 };
    struct arena arena = { 0 };
    struct idle idle = idle_of(setup, plan, step_s, &arena);
    int runs = 0;
    for (int first = 0, end; is_worth_telling(&idle) && first < idle.num_stages; first = end) {
        end = end_of_run(&idle, first);
        bool is_shown = all_stages || runs < FEW_RUNS || end == idle.num_stages;
        if (is_shown)
            add_run(out, &idle, first, end);
        else if (runs == FEW_RUNS)
            text_add(out, " ...");
        runs++;
    }
    if (runs > 0)
        text_add(out, " of the step; the busiest stage has %.1f times the mean work",
                 imbalance_of(&idle));
    arena_release(&arena);
}
