/* Prints the results of `tune` as JSON or text. */
#include "base/text.h"
#include "base/units.h"
#include "cli/input/planfile.h"
#include "cli/print/scale.h"
#include "cli/print/terminal.h"
#include "cli/tune.h"
#include "cli/views/answer.h"

#include <math.h>
#include <stdio.h>

/* --- JSON ------------------------------------------------------------------------------------ */

/* The terms of the predicted step, then the part of the measured step that they do not explain. */
static json_t *explained_json(const struct tuning *t)
{
    json_t *list = json_array();
    const struct prediction *p = &t->present.prediction;
    if (t->unsound.code != ERR_NONE)
        return list;
    for (int i = 0; i < num_time_parts; i++)
        json_array_append_new(list, json_pack("{s:s, s:f}", "term", time_part_table[i].name,
                                              "seconds", time_part_s(&p->time, i)));
    if (t->measured_s > 0)
        json_array_append_new(list, json_pack("{s:s, s:f}", "term", "not_explained_s", "seconds",
                                              t->measured_s - p->step_s));
    return list;
}

/* The prediction in the terms of a trace: the time of kernels that compute. A trace shows all other
 * time as collectives (a rank that waits for another runs its receive) or as idle. */
static double predicted_compute_s(const struct tuning *t)
{
    const struct time_parts *time = &t->present.prediction.time;
    return time->compute_s + time->recompute_s + time->optimizer_s;
}

static json_t *trace_json(const struct tuning *t)
{
    const struct trace *trace = &t->trace;
    json_t *list = json_array();
    if (trace->steps == 0) {
        json_decref(list);
        return json_null();
    }
    for (int i = 0; i < trace->num_collectives; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:f, s:f}", "collective", trace->collectives[i].name, "seconds",
                            trace->collectives[i].seconds, "count", trace->collectives[i].count));
    json_t *predicted =
        t->unsound.code == ERR_NONE ? json_real(predicted_compute_s(t)) : json_null();
    return json_pack("{s:s, s:i, s:f, s:f, s:f, s:o, s:o}", "format", trace->format, "steps",
                     trace->steps, "compute_s", trace->compute_s, "exposed_s", trace->exposed_s,
                     "idle_s", trace->idle_s, "predicted_compute_s", predicted, "collectives",
                     list);
}

static json_t *flags_json(const struct settings *settings)
{
    json_t *list = json_array();
    for (int i = 0; i < settings->count; i++) {
        struct text words = { 0 };
        setting_write(&settings->at[i], &words);
        json_array_append_new(list, json_string(text_get(&words)));
        text_release(&words);
    }
    return list;
}

static json_t *keys_json(const struct settings *settings)
{
    json_t *list = json_array();
    for (int i = 0; i < settings->count; i++)
        json_array_append_new(list, json_string(settings->at[i].key));
    return list;
}

static json_t *changes_json(const struct changes *changes)
{
    json_t *list = json_array();
    for (int i = 0; i < changes->count; i++) {
        const struct change *change = &changes->at[i];
        struct text layout = { 0 };
        plan_write(&change->plan.plan, &layout);
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:s, s:f, s:o, s:o, s:f}", "flags",
                            flags_json(&change->flags.give), "drop", keys_json(&change->flags.drop),
                            "layout", text_get(&layout), "step_s", change->step_s, "gain",
                            finite_json(change->gain), "p_gain", finite_json(change->p_gain),
                            "p_oom", change->plan.prediction.p_oom));
        text_release(&layout);
    }
    return list;
}

static json_t *proposal_json(struct tune_answer *answer, const struct proposal *next)
{
    const struct proposals *of = &answer->proposals;
    const struct trial *trial = &of->trials[next->trial];
    const struct flag_change *flags = &of->flags[next->trial];
    struct system system = answer->t.job.setup.system;
    struct model model = answer->t.job.setup.model;
    struct text layout = { 0 };
    plan_write(&trial->plan.plan, &layout);
    system.num_gpus = trial->gpus;
    model.batch = trial->batch;
    json_t *json = json_pack(
        "{s:o, s:s, s:i, s:f, s:i, s:f, s:f, s:f, s:s, s:o, s:o}", "plan",
        planfile_json(&system, &model, &trial->plan.plan, NULL), "layout", text_get(&layout),
        "gpus", trial->gpus, "batch", trial->batch, "change", of->change[trial->rival] + 1,
        "step_s", trial->plan.prediction.step_s, "p_best", next->outlook.p_best, "gain_bits",
        next->outlook.bits, "command", flag_change_words(flags, &answer->t.arena), "flags",
        flags_json(&flags->give), "drop", keys_json(&flags->drop));
    text_release(&layout);
    return json;
}

/* Adds the proposals. "change" counts from 1; 0 is the unchanged command. */
static void add_proposals_json(json_t *json, struct tune_answer *answer)
{
    const struct proposals *of = &answer->proposals;
    json_t *list = json_array();
    for (int i = 0; i < of->num_next; i++)
        json_array_append_new(list, proposal_json(answer, &of->next[i]));
    json_object_set_new(json, "propose", list);
    if (of->choice >= 0)
        json_object_set_new(
            json, "best",
            json_pack("{s:i, s:f}", "change", of->change[of->choice] + 1, "p_best", of->p_best));
}

/* Prints the document for a file without a plan. It has all keys; the keys about plans are null or
 * empty. */
static void print_unread_json(const struct tune_answer *answer)
{
    const struct tuning *t = &answer->t;
    json_t *json =
        json_pack("{s:s, s:n, s:O, s:o, s:n, s:n, s:n, s:n, s:[], s:[], s:[]}", "target",
                  t->job.target->name, "plan", "broken", answer->broken, "unknown",
                  imported_settings_json(&t->job.imported->unknown), "prediction", "measured_s",
                  "measured_bytes", "trace", "explained", "changes", "propose");
    print_json(json);
    json_decref(json);
}

void tune_print_json(struct tune_answer *answer)
{
    const struct tuning *t = &answer->t;
    const struct setup *setup = &t->job.setup;
    bool is_sound = t->unsound.code == ERR_NONE;
    if (answer->is_unread) {
        print_unread_json(answer);
        return;
    }
    json_t *json = json_pack(
        "{s:s, s:o, s:O, s:o, s:o, s:o, s:o, s:o, s:o, s:O}", "target", t->job.target->name, "plan",
        planfile_json(&setup->system, &setup->model, &t->now.plan, NULL), "broken", answer->broken,
        "unknown", imported_settings_json(&t->job.imported->unknown), "prediction",
        is_sound ? prediction_json(setup, &t->now.plan, &t->present.prediction, false)
                 : json_null(),
        "measured_s", t->measured_s > 0 ? json_real(t->measured_s) : json_null(), "measured_bytes",
        t->measured_bytes > 0 ? json_real(t->measured_bytes) : json_null(), "explained",
        explained_json(t), "changes", changes_json(&answer->changes), "assumptions",
        setup->assumptions);
    json_object_set_new(json, "trace", trace_json(t));
    json_object_set_new(json, "known_runs", json_integer(t->known.evidence.count));
    add_proposals_json(json, answer);
    print_json(json);
    json_decref(json);
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_step(const struct tuning *t)
{
    const struct prediction *p = &t->present.prediction;
    char memory[48], room[48];
    if (t->unsound.code != ERR_NONE) {
        printf("predicted nothing: %s %s\n", t->unsound.where, t->unsound.msg);
        return;
    }
    units_show(p->peak_memory_bytes, QUANTITY_BYTES, memory, sizeof memory);
    units_show(t->job.setup.memory_bytes, QUANTITY_BYTES, room, sizeof room);
    printf("predicted %.3g s (90 %% interval %.3g to %.3g), %s of %s, P(out of memory) %s%s\n",
           p->step_s, p->step_low_s, p->step_high_s, memory, room, risk_words(p->p_oom).text,
           p->fits ? "" : "; it does not fit");
    if (t->measured_s > 0)
        printf("measured  %.3g s, of which the prediction explains %.3g s\n", t->measured_s,
               p->step_s);
    printf("          ");
    for (int i = 0; i < num_time_parts; i++)
        if (time_part_s(&p->time, i) > 0)
            printf("%s %.3g s, ", time_part_table[i].label, time_part_s(&p->time, i));
    if (t->measured_s > 0)
        printf("unexplained %.3g s\n", t->measured_s - p->step_s);
    else
        printf("total %.3g s\n", p->step_s);
}

static void print_trace(const struct tuning *t)
{
    const struct trace *trace = &t->trace;
    if (trace->steps == 0)
        return;
    printf("trace     %d steps: computing %.3g s", trace->steps, trace->compute_s);
    if (t->unsound.code == ERR_NONE)
        printf(" (predicted %.3g)", predicted_compute_s(t));
    printf(", only collectives %.3g s, idle %.3g s\n"
           "          ",
           trace->exposed_s, trace->idle_s);
    for (int i = 0; i < trace->num_collectives; i++)
        printf("%s%s %.3g s in %.3g", i > 0 ? ", " : "", trace->collectives[i].name,
               trace->collectives[i].seconds, trace->collectives[i].count);
    printf("%s\n", trace->num_collectives > 0 ? "" : "no collectives");
}

/* Prints the name of a rival: "change 2", or the unchanged command. */
static void print_rival(const struct proposals *of, int rival)
{
    if (of->change[rival] < 0)
        printf("the command as it is");
    else
        printf("change %d", of->change[rival] + 1);
}

static void print_proposals(struct tune_answer *answer, const struct options *options)
{
    const struct proposals *of = &answer->proposals;
    if (of->choice < 0)
        return;
    printf("best      ");
    print_rival(of, of->choice);
    if (of->change[of->choice] < 0 && answer->changes.count > 0)
        printf(", as no change is faster with a probability of %.0f %% or more", 100 * SURE_GAIN);
    printf(", P(within %.0f %% of the fastest) %.0f %%\n", 100 * CLOSE_TO_BEST, 100 * of->p_best);
    for (int i = 0; i < of->num_next; i++) {
        const struct trial *trial = &of->trials[of->next[i].trial];
        const char *words = flag_change_words(&of->flags[of->next[i].trial], &answer->t.arena);
        printf("run %d     ", i + 1);
        print_rival(of, trial->rival);
        printf(" on %d GPUs, batch %.0f: its measured time would raise P(within %.0f %% of the "
               "fastest) to %.0f %%; it yields %.2g bits of information\n          %s\n",
               trial->gpus, trial->batch, 100 * CLOSE_TO_BEST, 100 * of->next[i].outlook.p_best,
               of->next[i].outlook.bits, *words ? words : "as it is");
    }
    if (of->num_next > 0 && !options->output)
        printf("\nnext  simsearch tune ... --propose -o runs.json; fill in the times in runs.json, "
               "then give it to tune with the logs\n");
    else if (of->num_next > 0)
        printf("\nnext  fill in step_s or log of each run in %s, then give this file to tune with "
               "the logs\n",
               options->output);
}

static void print_change(const struct change *change, int number, struct arena *arena)
{
    printf("change %d  %.3g s", number, change->step_s);
    if (isfinite(change->gain))
        printf(", %.1f %% less time, P(less time) %s", 100 * change->gain,
               risk_words(change->p_gain).text);
    printf(", P(out of memory) %s\n          %s\n", risk_words(change->plan.prediction.p_oom).text,
           flag_change_words(&change->flags, arena));
}

static void print_unread(const struct tune_answer *answer)
{
    const struct tuning *t = &answer->t;
    imported_print_broken(answer->broken);
    imported_print_settings("unknown", &t->job.imported->unknown);
    print_step(t);
}

void tune_print(struct tune_answer *answer, const struct options *options)
{
    struct tuning *t = &answer->t;
    const struct setup *setup = &t->job.setup;
    struct text layout = { 0 };
    if (answer->is_unread) {
        print_unread(answer);
        return;
    }
    plan_write(&t->now.plan, &layout);
    printf("layout    %s\n", text_get(&layout));
    text_release(&layout);
    printf("run       %d GPUs of %s, batch %.0f sequences of %d tokens\n", setup->system.num_gpus,
           setup->system.cluster.name, setup->model.batch, setup->model.seq);
    imported_print_broken(answer->broken);
    imported_print_settings("unknown", &t->job.imported->unknown);
    print_step(t);
    print_trace(t);
    if (t->known.evidence.count > 0)
        printf("known     %d measured runs of %s on this GPU; they correct the predicted times of "
               "the changes\n",
               t->known.evidence.count, setup->system.stack.name);
    for (int i = 0; i < answer->changes.count; i++)
        print_change(&answer->changes.at[i], i + 1, &t->arena);
    print_proposals(answer, options);
    if (answer->changes.count == 0)
        printf("change    none: %s\n",
               t->unsound.code == ERR_NONE && t->present.prediction.fits
                   ? "no plan that the framework can run is predicted to be faster"
                   : "no plan that differs in few flags fits and keeps the rules");
}
