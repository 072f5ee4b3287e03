#include "calibration/predict.h"

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

void runs_predict(const struct run_case *cases, int count, struct run_prediction *out)
{
    const struct run_case **order = arena_grow(NULL, ((size_t)count + 1) * sizeof(void *));
    int known = 0;
    for (int i = 0; i < count; i++) {
        out[i] = (struct run_prediction){ 0 };
        if (*cases[i].skip == '\0')
            order[known++] = &cases[i];
    }
    qsort(order, (size_t)known, sizeof(void *), compare_cases);
    struct evaluator *evaluator = NULL;
    for (int i = 0; i < known; i++) {
        if (i == 0 || !share_evaluator(order[i - 1], order[i])) {
            evaluator_free(evaluator);
            evaluator = evaluator_new(order[i]->system, &order[i]->model);
        }
        struct prediction p = evaluate(evaluator, &order[i]->plan);
        out[order[i] - cases] = (struct run_prediction){ p.step_s, p.peak_memory_bytes, p.fits };
    }
    evaluator_free(evaluator);
    free(order);
}
