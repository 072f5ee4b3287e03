/* Keeps the best plans of all that are offered. */
#include "search/frontier.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

static bool layout_before(const struct plan *a, const struct plan *b)
{
    struct text text_a = { 0 };
    struct text text_b = { 0 };
    plan_write(a, &text_a);
    plan_write(b, &text_b);
    bool before = strcmp(text_get(&text_a), text_get(&text_b)) < 0;
    text_release(&text_a);
    text_release(&text_b);
    return before;
}

bool ranked_before(int objective, const struct ranked_plan *a, const struct ranked_plan *b)
{
    if (objective == OBJECTIVE_MEMORY && a->peak_memory_bytes != b->peak_memory_bytes)
        return a->peak_memory_bytes < b->peak_memory_bytes;
    if (a->step_s != b->step_s)
        return a->step_s < b->step_s;
    return layout_before(&a->plan, &b->plan);
}

struct frontier frontier_new(int objective, int capacity, struct arena *arena)
{
    return (struct frontier){ .objective = objective,
                              .capacity = capacity,
                              .at = ARENA_ARRAY(arena, struct ranked_plan, (size_t)capacity) };
}

double frontier_fastest_s(const struct frontier *frontier)
{
    double least_s = HUGE_VAL;
    for (int i = 0; i < frontier->count; i++)
        least_s = fmin(least_s, frontier->at[i].step_s);
    return least_s;
}

static void swap(struct ranked_plan *a, struct ranked_plan *b)
{
    struct ranked_plan kept = *a;
    *a = *b;
    *b = kept;
}

static bool before(const struct frontier *f, int a, int b)
{
    return ranked_before(f->objective, &f->at[a], &f->at[b]);
}

/* Moves the plan at `i` down the heap until both its children rank before it. */
static void sift_down(struct frontier *f, int i, int count)
{
    for (;;) {
        int last = i;
        for (int child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++)
            if (before(f, last, child))
                last = child;
        if (last == i)
            return;
        swap(&f->at[i], &f->at[last]);
        i = last;
    }
}

static void sift_up(struct frontier *f, int i)
{
    for (; i > 0 && before(f, (i - 1) / 2, i); i = (i - 1) / 2)
        swap(&f->at[i], &f->at[(i - 1) / 2]);
}

void frontier_offer(struct frontier *f, const struct ranked_plan *plan)
{
    if (f->count < f->capacity) {
        f->at[f->count] = *plan;
        sift_up(f, f->count++);
    } else if (f->capacity > 0 && ranked_before(f->objective, plan, &f->at[0])) {
        f->at[0] = *plan;
        sift_down(f, 0, f->count);
    }
}

void frontier_sort(struct frontier *f)
{
    for (int count = f->count - 1; count > 0; count--) {
        swap(&f->at[0], &f->at[count]);
        sift_down(f, 0, count);
    }
}
