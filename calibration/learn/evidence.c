/* Chooses measured runs that are evidence about the errors of a stack's predictions. */
#include "calibration/learn/evidence.h"

#include <string.h>

bool evidence_counts(const struct run_case *of, const struct system *system,
                     const struct model *model)
{
    return strcmp(of->system->stack.name, system->stack.name) == 0 &&
           strcmp(of->system->profile.name, system->profile.name) == 0 &&
           of->is_moe == (model->experts > 0);
}

static void add(const struct run_case *of, const struct run_prediction *predicted,
                struct believed *runs, double *measured_s, struct evidence *to)
{
    runs[to->count] = (struct believed){ .step_s = predicted->step_s,
                                         .parts = &predicted->time,
                                         .plan = &of->plan,
                                         .rival = -1,
                                         .model = &of->model };
    measured_s[to->count++] = run_measured_s(of->row);
}

void evidence_gather(const struct run_case *const *of, int n, const struct run_case *cases,
                     const struct run_prediction *predictions, const struct model *model,
                     struct arena *arena, struct evidence *out)
{
    struct believed *runs = ARENA_ARRAY(arena, struct believed, MOST_EVIDENCE);
    double *measured_s = ARENA_ARRAY(arena, double, MOST_EVIDENCE);
    *out = (struct evidence){ runs, measured_s, 0, model };
    for (int is_other = 0; is_other < 2; is_other++) {
        int found = 0, seen = 0, room = MOST_EVIDENCE - out->count;
        for (int i = 0; i < n; i++)
            found += (of[i]->model.hidden != model->hidden) == is_other;
        for (int i = 0; i < n; i++) {
            if ((of[i]->model.hidden != model->hidden) != is_other)
                continue;
            /* takes `room` cases at even distances: case i of `found` if i x room / found passes a
             * whole number */
            long long before = (long long)seen * room / found;
            long long after = (long long)(seen + 1) * room / found;
            seen++;
            if (found <= room || after > before)
                add(of[i], &predictions[of[i] - cases], runs, measured_s, out);
        }
    }
}

bool stack_runs_load(const struct system *system, const struct model *model, int jobs,
                     struct stack_runs *out, struct err *err)
{
    struct run_rows rows;
    struct arena *arena = &out->arena;
    *out = (struct stack_runs){ .systems = run_systems_new(NULL, NULL, err) };
    if (!out->systems || !shipped_runs_load(arena, &rows, err))
        return false;
    struct run_case *cases = ARENA_ARRAY(arena, struct run_case, (size_t)rows.count);
    for (int i = 0; i < rows.count; i++) {
        if (!run_convert(out->systems, &rows.at[i], &cases[i], err))
            return false;
        if (*cases[i].skip == '\0' && !evidence_counts(&cases[i], system, model))
            cases[i].skip = "another stack, GPU or kind of model";
    }
    struct run_prediction *predictions =
        ARENA_ARRAY(arena, struct run_prediction, (size_t)rows.count);
    runs_predict(cases, rows.count, jobs, predictions);
    struct scores scores = runs_score(cases, predictions, rows.count, arena);
    const struct run_case **of =
        ARENA_ARRAY(arena, const struct run_case *, (size_t)scores.num_scored);
    int n = 0;
    for (int i = 0; i < scores.num_scored; i++)
        if (predictions[scores.worst[i]].step_s > 0)
            of[n++] = &cases[scores.worst[i]];
    evidence_gather(of, n, cases, predictions, model, arena, &out->evidence);
    return true;
}

void stack_runs_release(struct stack_runs *runs)
{
    run_systems_free(runs->systems);
    arena_release(&runs->arena);
    *runs = (struct stack_runs){ 0 };
}
