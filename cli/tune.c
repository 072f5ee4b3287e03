/* cli/tune.c - improves a framework's command, using its logs. */
#include "cli/tune.h"
#include "base/file.h"
#include "base/json_layout.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "base/text.h"
#include "calibration/learn/train_log.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/search_request.h"
#include "cli/run_log.h"
#include "sim/plan/ranks.h"

#include <math.h>

/* --- reading the job ------------------------------------------------------------------------- */

/* Predicts the file's plan, or notes in t->unsound why it cannot be predicted. */
static void predict_present(struct tuning *t)
{
    const struct setup *setup = &t->job.setup;
    const struct system *system = &setup->system;
    struct plan plan = setup->plan;
    const struct plan_rule *rule = NULL;
    t->rule_id = "gpus";
    t->sentence = "The product of the degrees is the number of GPUs.";
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

/* Sets the median step time of the logs and the highest memory that a log shows. */
static bool read_logs(struct tuning *t, const struct options *options, struct err *err)
{
    double step_s[MAX_FILES];
    int count = 0;
    t->measured_s = -1;
    t->measured_bytes = -1;
    for (int i = 1; i < options->num_files; i++) {
        struct train_log log;
        if (text_ends_in(options->files[i], ".json") && !trace_is(options->files[i])) {
            if (!tune_read_results(t, options->files[i], err))
                return false;
            continue;
        }
        if (!train_log_read(options->files[i], &log, err))
            return false;
        const char *why = run_log_why_another(&log, &t->now.model, &t->arena);
        if (*why)
            return err_set(err, ERR_INPUT, options->files[i], "is %s", why);
        double s = train_log_step_s(&log, t->now.model.batch, t->now.model.seq, t->now.num_gpus);
        if (s > 0)
            step_s[count++] = s;
        t->measured_bytes = fmax(t->measured_bytes, log.memory_bytes);
        if (log.trace.steps > 0)
            t->trace = log.trace;
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
                                 "use one of the listed changes, which keep this rule" };
        json_array_append_new(answer->broken, broken_json(&broken));
    }
    tune_add_advice(t, answer->broken);
}

/* The search request. It keeps the file's precision, attention, optimizer and offloads, and assumes
 * the framework's usual overlaps. */
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

/* Writes the proposed runs with empty times, which the user fills in. */
static bool write_results(const struct tune_answer *answer, const char *path, struct err *err)
{
    if (!path)
        return true;
    if (!answer->is_asked)
        return err_set(err, ERR_USAGE, "--output",
                       "needs --propose, because it writes the proposed runs");
    struct text text = { 0 };
    json_t *root = tune_results_json(&answer->t, &answer->proposals);
    text_add_json(&text, root);
    json_decref(root);
    bool ok = file_write(path, text_get(&text), text.length, err);
    text_release(&text);
    return ok;
}

/* Whether broken rules explain why a file could not be read as a plan. If so, the rules become the
 * answer, and `err` is moved to the answer. */
static bool is_explained(struct tune_answer *answer, const char *path, struct err *err)
{
    struct imported_job *job = &answer->t.job;
    struct err ignored = { 0 };
    if (err->code != ERR_INPUT || !job->imported->has_args ||
        !imported_check_degrees(job->imported, path, &ignored))
        return false;
    answer->broken = imported_broken_json(job);
    answer->is_unread = json_array_size(answer->broken) > 0;
    if (answer->is_unread) {
        answer->t.unsound = *err;
        *err = (struct err){ 0 };
    }
    return answer->is_unread;
}

static bool find(struct tune_answer *answer, struct options *options, struct err *err)
{
    struct tuning *t = &answer->t;
    const char *from = options->conversion.from ? options->conversion.from : "megatron";
    if (!imported_load(options, from, false, &t->job, err))
        return is_explained(answer, options->files[0], err);
    t->now = t->job.imported->job;
    t->now.model = t->job.setup.model;
    t->now.num_gpus = t->job.setup.system.num_gpus;
    t->now.gpus_per_node = cluster_host_size(&t->job.setup.system.cluster);
    t->evaluator = evaluator_new(&t->job.setup.system, &t->job.setup.model);
    struct search_request request = request_of(options, t);
    t->oom_risk = request.oom_risk;
    predict_present(t);
    int jobs = options->jobs > 0 ? options->jobs : parallel_cores();
    if (!read_logs(t, options, err) ||
        !stack_runs_load(&t->job.setup.system, &t->now.model, jobs, &t->known, err))
        return false;
    find_broken(answer);
    tune_find_changes(t, &request, &answer->changes);
    answer->is_asked = options->propose;
    tune_propose(t, &answer->changes, options->propose, &answer->proposals);
    return write_results(answer, options->output, err);
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
            tune_print_json(&answer);
        else
            tune_print(&answer, &options);
    }
    json_decref(answer.broken);
    evaluator_free(answer.t.evaluator);
    stack_runs_release(&answer.t.known);
    arena_release(&answer.t.arena);
    imported_release(&answer.t.job);
    return exit_code_of(err);
}
