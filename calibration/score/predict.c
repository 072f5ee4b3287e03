/* Predicts many cases at once. A case is a measured run as a model, a system and a plan. */
#include "calibration/score/predict.h"

#include "base/length.h"
#include "base/parallel.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

/* Orders cases so that those of one system and model are adjacent, then by their place in the
 * file. */
static int compare_cases(const void *a, const void *b)
{
    const struct run_case *x = *(const struct run_case *const *)a;
    const struct run_case *y = *(const struct run_case *const *)b;
    const int differences[] = {
        (x->system > y->system) - (x->system < y->system),
        numbers_order(x->model.layers, y->model.layers),
        numbers_order(x->model.hidden, y->model.hidden),
        numbers_order(x->model.seq, y->model.seq),
        numbers_order(x->model.batch, y->model.batch),
        (x > y) - (x < y),
    };
    size_t i = 0;
    while (differences[i] == 0 && i + 1 < LENGTH(differences))
        i++;
    return differences[i];
}

static bool share_evaluator(const struct run_case *a, const struct run_case *b)
{
    return a->system == b->system && models_are_equal(&a->model, &b->model);
}

/* The cases that can be predicted, sorted, and the start of each group that shares an evaluator. */
struct prediction_groups {
    const struct run_case *cases;
    const struct run_case **order;
    int *start; /* start of each group, and the end of the last */
    struct run_prediction *out;
};

static double stage_bytes(const struct stage_memory *stage, enum memory_kind kind)
{
    switch (kind) {
    case MEMORY_ALLOCATED:
        return stage->allocated_bytes;
    case MEMORY_RESERVED:
        return stage->allocated_bytes + stage->slack_bytes;
    case MEMORY_DRIVER:
        break;
    }
    return stage->total_bytes;
}

/* The peak of the stage whose memory the run's log shows. */
static double peak_bytes(const struct prediction *prediction, const struct run_case *of)
{
    enum memory_kind kind = of->memory_kind;
    bool is_last = of->system->stack.unstated.logged_stage == LOGGED_LAST;
    double most_bytes = 0;
    for (int stage = is_last ? prediction->num_stages - 1 : 0; stage < prediction->num_stages;
         stage++)
        most_bytes = fmax(most_bytes, stage_bytes(&prediction->stages[stage], kind));
    return most_bytes;
}

static void predict_share(void *context, size_t index, int worker)
{
    const struct prediction_groups *work = context;
    int first = work->start[index];
    (void)worker;
    struct evaluator *evaluator =
        evaluator_new(work->order[first]->system, &work->order[first]->model);
    for (int i = first; i < work->start[index + 1]; i++) {
        struct prediction p = evaluate(evaluator, &work->order[i]->plan);
        double memory_bytes = peak_bytes(&p, work->order[i]);
        double runs = work->order[i]->pipeline_runs;
        struct time_parts time = { 0 };
        time_parts_add(&time, &p.time, runs);
        work->out[work->order[i] - work->cases] = (struct run_prediction){
            .step_s = runs * p.step_s,
            .memory_bytes = memory_bytes,
            .peak_bytes = p.peak_memory_bytes,
            .fits = p.fits,
            .step_low_s = runs * p.step_low_s,
            .step_high_s = runs * p.step_high_s,
            .time = time,
        };
    }
    evaluator_free(evaluator);
}

void runs_predict(const struct run_case *cases, int count, int jobs, struct run_prediction *out)
{
    size_t room = (size_t)count + 1;
    struct prediction_groups work = {
        .cases = cases,
        .order = arena_grow(NULL, room * sizeof(void *)),
        .start = arena_grow(NULL, room * sizeof *work.start),
        .out = out,
    };
    int known = 0;
    for (int i = 0; i < count; i++) {
        out[i] = (struct run_prediction){ 0 };
        if (*cases[i].skip == '\0')
            work.order[known++] = &cases[i];
    }
    qsort(work.order, (size_t)known, sizeof(void *), compare_cases);
    size_t num_shares = 0;
    for (int i = 0; i < known; i++)
        if (i == 0 || !share_evaluator(work.order[i - 1], work.order[i]))
            work.start[num_shares++] = i;
    work.start[num_shares] = known;
    parallel_for(jobs, num_shares, 1, predict_share, &work);
    free(work.order);
    free(work.start);
}
