/* cli/tune.c - from a framework's command and its logs to a better command. */
#include "cli/tune.h"
#include "base/length.h"
#include "base/statistics.h"
#include "base/text.h"
#include "base/units.h"
#include "calibration/learn/train_log.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/planfile.h"
#include "cli/input/search_request.h"
#include "cli/print/terminal.h"
#include "cli/run_log.h"
#include "cli/views/answer.h"

#include <math.h>
#include <stdio.h>

struct tune_answer {
    struct tuning t;
    json_t *broken;
    struct changes changes;
};

/* --- what there is --------------------------------------------------------------------------- */

/* Predicts the plan of the file, or keeps why that cannot be. */
static void predict_present(struct tuning *t)
{
    const struct setup *setup = &t->job.setup;
    const struct system *system = &setup->system;
    struct plan plan = setup->plan;
    const struct plan_rule *rule = NULL;
    t->rule_id = "gpus";
    t->sentence = "The degrees multiply to the number of GPUs.";
    bool derived = plan_derive_data(&plan, system->num_gpus, &t->unsound);
    if (derived)
        rule = plan_check(&plan, &setup->model, setup->model.batch, system->num_gpus, &t->unsound);
    if (rule) {
        t->rule_id = rule->name;
        t->sentence = rule->summary;
    }
    if (!derived || rule)
        return;
    t->rule_id = "system";
    t->sentence = "The GPUs and their network can run the plan.";
    if (system_check(system, &plan, &t->unsound))
        tune_score(t, &plan, &t->present);
    t->now.plan = plan;
}

/* The middle of the logs' step times, and the most memory of any. */
static bool read_logs(struct tuning *t, const struct options *options, struct err *err)
{
    double step_s[MAX_FILES];
    int count = 0;
    t->measured_s = -1;
    t->measured_bytes = -1;
    for (int i = 1; i < options->num_files; i++) {
        struct train_log log;
        if (!train_log_read(options->files[i], &log, err))
            return false;
        const char *why = run_log_why_another(&log, &t->now.model, &t->arena);
        if (*why)
            return err_set(err, ERR_INPUT, options->files[i], "is %s", why);
        double s = train_log_step_s(&log, t->now.model.batch, t->now.model.seq, t->now.num_gpus);
        if (s > 0)
            step_s[count++] = s;
        t->measured_bytes = fmax(t->measured_bytes, log.memory_bytes);
    }
    numbers_sort(step_s, (size_t)count);
    if (count > 0)
        t->measured_s = sorted_quantile(step_s, count, 0.5);
    return true;
}

static void find_broken(struct tune_answer *answer)
{
    struct tuning *t = &answer->t;
    answer->broken = imported_broken_json(&t->job);
    if (t->unsound.code != ERR_NONE && json_array_size(answer->broken) == 0) {
        struct broken broken = { t->rule_id, t->sentence, t->unsound.where, t->unsound.msg,
                                 "take one of the changes, which keep it" };
        json_array_append_new(answer->broken, broken_json(&broken));
    }
    tune_add_advice(t, answer->broken);
}

/* The search keeps the file's own precision, attention, optimizer and offloads, and takes the
 * framework's usual overlaps. */
static struct search_request request_of(struct options *options, struct tuning *t)
{
    struct plan base = plan_default();
    const struct plan *now = &t->now.plan;
    struct search_request request = search_request_of(options, &t->job.setup);
    base.capacity = now->capacity;
    base.attention = now->attention;
    base.precision = now->precision;
    base.gradient_dtype = now->gradient_dtype;
    base.reduce_dtype = now->reduce_dtype;
    base.optimizer = now->optimizer;
    base.context_comm = now->context_comm;
    base.offloads = now->offloads;
    request.base = base;
    request.top = 1;
    return request;
}

/* Degrees that are no numbers of ranks are no plan, and rules divide by them. */
static bool check_degrees(const struct plan *plan, const char *path, struct err *err)
{
    const struct {
        const char *name;
        int value;
    } degrees[] = { { "tp", plan->tp },        { "cp", plan->cp }, { "ep", plan->ep },
                    { "etp", plan->etp },      { "pp", plan->pp }, { "vpp", plan->vpp },
                    { "mb", plan->microbatch } };
    for (int i = 0; i < LENGTH(degrees); i++)
        if (degrees[i].value < 1 || degrees[i].value > MOST_GPUS)
            return err_set(err, ERR_INPUT, path, "expected %s from 1 to %d, found %d",
                           degrees[i].name, MOST_GPUS, degrees[i].value);
    return true;
}

static bool find(struct tune_answer *answer, struct options *options, struct err *err)
{
    struct tuning *t = &answer->t;
    if (!imported_load(options, options->from ? options->from : "megatron", false, &t->job, err) ||
        !check_degrees(&t->job.imported->job.plan, options->files[0], err))
        return false;
    t->now = t->job.imported->job;
    t->now.model = t->job.setup.model;
    t->now.num_gpus = t->job.setup.system.num_gpus;
    t->now.gpus_per_node = cluster_host_size(&t->job.setup.system.cluster);
    t->evaluator = evaluator_new(&t->job.setup.system, &t->job.setup.model);
    struct search_request request = request_of(options, t);
    t->oom_risk = request.oom_risk;
    predict_present(t);
    if (!read_logs(t, options, err))
        return false;
    find_broken(answer);
    tune_find_changes(t, &request, &answer->changes);
    return true;
}

/* --- JSON ------------------------------------------------------------------------------------ */

/* The terms of the predicted step, and what they leave of the measured one. */
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

static void print_answer_json(const struct tune_answer *answer)
{
    const struct tuning *t = &answer->t;
    const struct setup *setup = &t->job.setup;
    bool is_sound = t->unsound.code == ERR_NONE;
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
    printf("predicted %.3g s (90 %% interval %.3g to %.3g), %s of %s, P(out of memory) %.2g %%%s\n",
           p->step_s, p->step_low_s, p->step_high_s, memory, room, 100 * p->p_oom,
           p->fits ? "" : "; it does not fit");
    if (t->measured_s > 0)
        printf("measured  %.3g s, explained %.3g s\n", t->measured_s, p->step_s);
    printf("          ");
    for (int i = 0; i < num_time_parts; i++)
        if (time_part_s(&p->time, i) > 0)
            printf("%s %.3g s, ", time_part_table[i].label, time_part_s(&p->time, i));
    if (t->measured_s > 0)
        printf("not explained %.3g s\n", t->measured_s - p->step_s);
    else
        printf("in all %.3g s\n", p->step_s);
}

static void print_change(const struct change *change, int number, struct arena *arena)
{
    printf("change %d  %.3g s", number, change->step_s);
    if (isfinite(change->gain))
        printf(", gains %.1f %%, P(gain) %.0f %%", 100 * change->gain, 100 * change->p_gain);
    printf(", P(out of memory) %.2g %%\n          %s\n", 100 * change->plan.prediction.p_oom,
           flag_change_words(&change->flags, arena));
}

static void print_answer(struct tune_answer *answer)
{
    struct tuning *t = &answer->t;
    const struct setup *setup = &t->job.setup;
    struct text layout = { 0 };
    plan_write(&t->now.plan, &layout);
    printf("layout    %s\n", text_get(&layout));
    text_release(&layout);
    printf("run       %d GPUs of %s, batch %.0f sequences of %d tokens\n", setup->system.num_gpus,
           setup->system.cluster.name, setup->model.batch, setup->model.seq);
    imported_print_broken(answer->broken);
    imported_print_settings("unknown", &t->job.imported->unknown);
    print_step(t);
    for (int i = 0; i < answer->changes.count; i++)
        print_change(&answer->changes.at[i], i + 1, &t->arena);
    if (answer->changes.count == 0)
        printf("change    none: %s\n",
               t->unsound.code == ERR_NONE && t->present.prediction.fits
                   ? "no plan that the framework can run is predicted to be faster"
                   : "no plan near this one fits and keeps the rules");
}

int cmd_tune(int argc, char **argv, struct err *err)
{
    struct options options;
    struct tune_answer answer = { 0 };
    if (!options_parse(COMMAND_TUNE, MAX_FILES, argc, argv, &options, err))
        return exit_code_of(err);
    if (options.num_files == 0)
        err_set(err, ERR_USAGE, "",
                "expected the file of a job, like \"tune args.sh train.log --gpus 256\"");
    else if (find(&answer, &options, err)) {
        if (options.json)
            print_answer_json(&answer);
        else
            print_answer(&answer);
    }
    json_decref(answer.broken);
    evaluator_free(answer.t.evaluator);
    arena_release(&answer.t.arena);
    imported_release(&answer.t.job);
    return exit_code_of(err);
}
