#include "calibration/predict.h"

#include "base/parallel.h"
#include "sim/engine/simulate.h"

#include <stdlib.h>
#include <string.h>

/* Cases of one system and one model next to each other. Only equality matters of the first two; the
 * place in the file makes the order certain. */
static int compare_cases(const void *a, const void *b)
{
    const struct run_case *x = *(const struct run_case *const *)a;
    const struct run_case *y = *(const struct run_case *const *)b;
    if (x->system != y->system)
        return x->system < y->system ? -1 : 1;
    int by_model = memcmp(&x->model, &y->model, sizeof x->model);
    return by_model ? by_model : (x > y) - (x < y);
}

static bool share_evaluator(const struct run_case *a, const struct run_case *b)
{
    return a->system == b->system && memcmp(&a->model, &b->model, sizeof a->model) == 0;
}

/* Predictable cases, in order, and where each run of them that shares an evaluator starts. */
struct work {
    const struct run_case *cases;
    const struct run_case **order;
    int *start; /* of each share, and the end of the last */
    struct run_prediction *out;
};

static void predict_share(void *context, size_t index, int worker)
{
    const struct work *work = context;
    int first = work->start[index];
    (void)worker;
    struct evaluator *evaluator =
        evaluator_new(work->order[first]->system, &work->order[first]->model);
    for (int i = first; i < work->start[index + 1]; i++) {
        struct prediction p = evaluate(evaluator, &work->order[i]->plan);
        work->out[work->order[i] - work->cases] =
            (struct run_prediction){ p.step_s, p.peak_memory_bytes, p.fits };
    }
    evaluator_free(evaluator);
}

void runs_predict(const struct run_case *cases, int count, int jobs, struct run_prediction *out)
{
    size_t room = (size_t)count + 1;
    struct work work = {
        .cases = cases,
        .order = arena_grow(NULL, room * sizeof *work.order),
        .start = arena_grow(NULL, room * sizeof *work.start),
        .out = out,
    };
    int known = 0;
    for (int i = 0; i < count; i++) {
        out[i] = (struct run_prediction){ 0 };
        if (*cases[i].skip == '\0')
            work.order[known++] = &cases[i];
    }
    qsort(work.order, (size_t)known, sizeof *work.order, compare_cases);
    size_t num_shares = 0;
    for (int i = 0; i < known; i++)
        if (i == 0 || !share_evaluator(work.order[i - 1], work.order[i]))
            work.start[num_shares++] = i;
    work.start[num_shares] = known;
    parallel_for(jobs, num_shares, 1, predict_share, &work);
    free(work.order);
    free(work.start);
}
