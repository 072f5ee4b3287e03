#include "cli/runnable.h"

#include "base/text.h"

void runnable_ask(const struct target *target, struct search_request *request, struct arena *arena)
{
    struct text words = { 0 };
    request->base.context_comm = target->context_comm;
    request->recompute_modules &= target->repeats_parts;
    if (!*target->forbids)
        return;
    text_add(&words, "%s %s", target->forbids, request->forbid ? request->forbid : "");
    request->forbid = text_keep(&words, arena);
}

/* Removes plans that the framework cannot run; keeps the order. */
static void keep_runnable(const struct target *target, const struct setup *setup,
                          struct search_result *result)
{
    struct arena arena = { 0 };
    struct job job = job_begin(&setup->system.stack, &setup->system.gpu);
    int kept = 0;
    job.model = setup->model;
    job.num_gpus = setup->system.num_gpus;
    for (int i = 0; i < result->num_top; i++) {
        struct arena_mark mark = arena_mark(&arena);
        struct err ignored = { 0 };
        job.plan = result->top[i].plan;
        if (!target_check_job(target, &job, NULL, &arena, &ignored)) {
            job_tidy(&job);
            result->top[kept] = result->top[i];
            result->top[kept++].plan = job.plan;
        }
        arena_reset(&arena, mark);
    }
    result->num_top = kept;
    arena_release(&arena);
}

bool runnable_search(const struct target *target, const struct setup *setup,
                     const struct search_request *request, int wanted, struct search_result *result,
                     struct err *err)
{
    enum { GROWTH = 4 };
    struct search_request wider = *request;
    for (;;) {
        if (!search_run(&wider, result, err))
            return false;
        int listed = result->num_top;
        keep_runnable(target, setup, result);
        bool is_all = listed < wider.top || wider.top >= MAX_TOP;
        if (result->num_top >= wanted || is_all || result->timed_out || result->was_interrupted)
            return result->num_top > 0 || listed == 0 ||
                   err_set(err, ERR_INFEASIBLE, "--for",
                           "%s can run none of the %d fastest plans; try other plans by --fix or "
                           "--space",
                           target->name, listed);
        search_result_release(result);
        *result = (struct search_result){ 0 };
        wider.top = wider.top * GROWTH < MAX_TOP ? wider.top * GROWTH : MAX_TOP;
    }
}
