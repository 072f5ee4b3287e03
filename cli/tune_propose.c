/* Proposes short runs that decide between changes, and uses the results of earlier runs. */
#include "base/json.h"
#include "base/length.h"
#include "base/text.h"
#include "calibration/learn/train_log.h"
#include "cli/tune.h"
#include "sim/plan/ranks.h"

#include <math.h>
#include <string.h>

/* --- results --------------------------------------------------------------------------------- */

static bool read_number(const json_t *run, const char *key, double fallback, double *out,
                        struct err *err)
{
    const json_t *value = json_object_get(run, key);
    *out = value ? json_number_value(value) : fallback;
    return (*out > 0 && *out <= 1e9) || err_set(err, ERR_INPUT, key, "expected a number above 0");
}

/* The run's step time: the given time, or the median of its log; -1 if it has neither yet. */
static bool read_time(const struct tuning *t, const json_t *run, struct tune_result *out,
                      struct err *err)
{
    const json_t *step_s = json_object_get(run, "step_s");
    const char *log_path = json_plain_text(json_object_get(run, "log"));
    struct train_log log;
    out->step_s = -1;
    if (step_s && !json_is_null(step_s))
        return read_number(run, "step_s", 0, &out->step_s, err);
    if (!log_path)
        return true;
    if (!train_log_read(log_path, &log, err))
        return false;
    out->step_s = train_log_step_s(&log, out->batch, t->now.model.seq, out->gpus);
    return true;
}

static struct trial_place place_of(const struct tuning *t)
{
    return (struct trial_place){ &t->job.setup.system, &t->now.model, t->oom_risk };
}

static bool read_result(struct tuning *t, const json_t *run, struct tune_result *out,
                        struct err *err)
{
    static const char *const keys[] = { "layout", "gpus", "batch", "step_s", "log" };
    const char *layout = json_plain_text(json_object_get(run, "layout"));
    struct trial_place place = place_of(t);
    struct plan plan;
    double gpus = 0;
    if (!json_is_object(run) || !layout)
        return err_set(err, ERR_INPUT, "layout", "expected the layout that ran");
    if (!json_only_keys(run, keys, LENGTH(keys), err) ||
        !read_number(run, "gpus", t->now.num_gpus, &gpus, err))
        return false;
    if (gpus > MOST_GPUS || gpus != floor(gpus))
        return err_set(err, ERR_INPUT, "gpus", "expected a whole number up to %d", MOST_GPUS);
    out->gpus = (int)gpus;
    double batch = t->now.model.batch * out->gpus / t->now.num_gpus;
    if (!read_number(run, "batch", batch, &out->batch, err) || !read_time(t, run, out, err))
        return false;
    struct err found = { 0 };
    if (!plan_parse(layout, &t->arena, &plan, &found) ||
        !plan_derive_data(&plan, out->gpus, &found) ||
        !trial_predict(&place, &plan, out->gpus, out->batch, &t->arena, &out->plan, &found))
        return err_set(err, ERR_INPUT, "layout", "%s: %s", found.where, found.msg);
    return true;
}

bool tune_read_results(struct tuning *t, const char *path, struct err *err)
{
    static const char *const keys[] = { "format", "runs" };
    struct json_file file;
    if (!json_file_load(&file, path, err))
        return false;
    const json_t *runs = json_object_get(file.root, "runs");
    bool ok = json_only_keys(file.root, keys, LENGTH(keys), err);
    if (ok && json_integer_value(json_object_get(file.root, "format")) != 1)
        ok = err_set(err, ERR_INPUT, "format", "expected 1");
    if (ok && (!json_is_array(runs) || json_array_size(runs) > MOST_RESULTS))
        ok = err_set(err, ERR_INPUT, "runs", "expected a list of at most %d", MOST_RESULTS);
    for (size_t i = 0; ok && i < json_array_size(runs); i++) {
        struct tune_result result = { .step_s = -1 };
        ok = read_result(t, json_array_get(runs, i), &result, err) ||
             err_within_item(err, "runs", i);
        if (ok && result.step_s > 0 && t->num_results < MOST_RESULTS)
            t->results[t->num_results++] = result;
    }
    if (!ok)
        json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}

/* --- step times and their uncertainty -------------------------------------------------------- */

static void add_rival(struct proposals *to, const struct scored_plan *plan, int change)
{
    if (to->rivals == MOST_RIVALS)
        return;
    to->change[to->rivals] = change;
    to->plan[to->rivals++] = *plan;
}

static struct believed believed_of(const struct scored_plan *plan, int rival, bool is_slice)
{
    return (struct believed){ .step_s = plan->prediction.step_s,
                              .parts = &plan->prediction.time,
                              .plan = &plan->plan,
                              .rival = rival,
                              .is_slice = is_slice };
}

/* The rival whose plan a result measured, on any number of GPUs; -1: none. */
static int rival_of(const struct proposals *of, const struct plan *plan)
{
    for (int i = 0; i < of->rivals; i++)
        if (trial_is_of(plan, &of->plan[i].plan))
            return i;
    return -1;
}

static void add_trials(struct tuning *t, struct proposals *out)
{
    struct trial_place place = place_of(t);
    for (int i = 0; i < out->rivals; i++) {
        struct trial slice = trial_of(&place, &out->plan[i].plan, i, &t->arena);
        struct trial whole = { i, t->now.num_gpus, t->now.model.batch, out->plan[i] };
        for (int k = 0; k < 2; k++) {
            const struct trial *trial = k == 0 ? &whole : &slice;
            struct job job = t->now;
            job.plan = trial->plan.plan;
            job.num_gpus = trial->gpus;
            job.model.batch = trial->batch;
            bool is_new = k == 0 || (slice.gpus > 0 && slice.gpus < whole.gpus);
            if (is_new && tune_job_flags(t, &job, &out->flags[out->num_trials]))
                out->trials[out->num_trials++] = *trial;
        }
    }
}

/* Index of the present plan among the rivals; -1: the present plan is not a rival. */
static int present_of(const struct proposals *of)
{
    return of->rivals > 0 && of->change[0] < 0 ? 0 : -1;
}

/* Sets up the belief, which is the joint estimate of all runs' times (sim/engine/belief.h): first
 * the rivals, then the rivals on fewer GPUs (slices), then the measured runs. */
static void begin(struct tuning *t, struct proposals *out)
{
    struct believed items[MOST_BELIEVED];
    int count = 0, all = t->now.num_gpus;
    for (int i = 0; i < out->rivals; i++)
        items[count++] = believed_of(&out->plan[i], i, false);
    for (int i = 0; i < out->num_trials; i++) {
        const struct trial *trial = &out->trials[i];
        bool is_slice = trial->gpus < all;
        out->runs[i] = is_slice ? count : trial->rival;
        if (is_slice)
            items[count++] = believed_of(&trial->plan, trial->rival, true);
    }
    int first = count;
    for (int i = 0; i < t->num_results; i++) {
        const struct tune_result *result = &t->results[i];
        int rival = rival_of(out, &result->plan.plan);
        items[count++] = believed_of(&result->plan, rival < 0 ? MOST_RIVALS + i : rival,
                                     rival < 0 || result->gpus < all);
    }
    belief_begin(&t->job.setup.system, items, count, out->rivals, &t->known.evidence, &out->belief);
    if (t->measured_s > 0 && present_of(out) == 0)
        belief_learn(&out->belief, 0, t->measured_s);
    for (int i = 0; i < t->num_results; i++)
        belief_learn(&out->belief, first + i, t->results[i].step_s);
}

/* Sets step times, gains and chances to the estimates after the measurements. */
static void judge_again(const struct proposals *of, struct changes *changes)
{
    int present = present_of(of);
    for (int i = 0; i < of->rivals; i++) {
        if (of->change[i] < 0)
            continue;
        struct change *change = &changes->at[of->change[i]];
        change->step_s = exp(of->belief.mean[i]);
        if (present < 0)
            continue;
        change->gain = 1 - exp(of->belief.mean[i] - of->belief.mean[present]);
        change->p_gain = belief_prefers(&of->belief, i, present);
    }
}

/* Makes the advised change the first; the others stay in the order of their predictions. */
static void put_first(struct proposals *of, struct changes *changes)
{
    int first = of->change[of->choice];
    if (first <= 0)
        return;
    struct change advised = changes->at[first];
    memmove(&changes->at[1], &changes->at[0], (size_t)first * sizeof advised);
    changes->at[0] = advised;
    for (int i = 0; i < of->rivals; i++)
        if (of->change[i] >= 0 && of->change[i] <= first)
            of->change[i] = of->change[i] == first ? 0 : of->change[i] + 1;
}

_Static_assert(2 * (MOST_CHANGES + 1) + MOST_RESULTS <= MOST_BELIEVED,
               "`struct belief` has too few places for these runs");

void tune_propose(struct tuning *t, struct changes *changes, bool is_asked, struct proposals *out)
{
    *out = (struct proposals){ .choice = -1 };
    if (t->unsound.code == ERR_NONE && t->present.prediction.fits)
        add_rival(out, &t->present, -1);
    for (int i = 0; i < changes->count; i++)
        add_rival(out, &changes->at[i].plan, i);
    if (out->rivals == 0)
        return;
    if (is_asked)
        add_trials(t, out);
    begin(t, out);
    out->choice = belief_advice(&out->belief, present_of(out), &out->p_best);
    if (t->num_results > 0 || t->measured_s > 0 || t->known.evidence.count > 0)
        judge_again(out, changes);
    put_first(out, changes);
    if (is_asked)
        out->num_next =
            trials_propose(&out->belief, out->trials, out->runs, out->num_trials, out->next);
}

/* --- a file to fill in ----------------------------------------------------------------------- */

static json_t *run_json(const struct plan *plan, int gpus, double batch, json_t *step_s)
{
    struct text layout = { 0 };
    plan_write(plan, &layout);
    json_t *json = json_pack("{s:s, s:i, s:f, s:o}", "layout", text_get(&layout), "gpus", gpus,
                             "batch", batch, "step_s", step_s);
    text_release(&layout);
    return json;
}

json_t *tune_results_json(const struct tuning *t, const struct proposals *proposals)
{
    json_t *runs = json_array();
    for (int i = 0; i < t->num_results; i++) {
        const struct tune_result *result = &t->results[i];
        json_array_append_new(runs, run_json(&result->plan.plan, result->gpus, result->batch,
                                             json_real(result->step_s)));
    }
    for (int i = 0; i < proposals->num_next; i++) {
        const struct trial *trial = &proposals->trials[proposals->next[i].trial];
        json_array_append_new(runs,
                              run_json(&trial->plan.plan, trial->gpus, trial->batch, json_null()));
    }
    return json_pack("{s:i, s:o}", "format", 1, "runs", runs);
}
