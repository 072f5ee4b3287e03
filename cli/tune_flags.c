/* The settings that turn a file's plan into another plan, tested on the file itself. */
#include "base/text.h"
#include "cli/tune.h"

#include <string.h>

static bool is_equal(const struct setting *a, const struct setting *b)
{
    if (!a || !b || a->num_values != b->num_values)
        return !a && !b;
    for (int i = 0; i < a->num_values; i++)
        if (strcmp(a->values[i], b->values[i]) != 0)
            return false;
    return true;
}

/* The target's settings for a job. */
static struct settings settings_of(struct tuning *t, struct job job)
{
    _Alignas(max_align_t) char args[MAX_TARGET_ARGS];
    struct settings out = { .arena = &t->arena };
    job_tidy(&job);
    t->job.target->arguments(&job, args, &t->arena);
    settings_write(&t->job.target->table, args, &out);
    return out;
}

/* The file's settings with the change. */
static struct settings changed_file(struct tuning *t, const struct settings *file,
                                    const struct flag_change *change)
{
    struct settings out = { .arena = &t->arena };
    for (int i = 0; i < file->count; i++)
        if (!settings_find(&change->drop, file->at[i].key) &&
            !settings_find(&change->give, file->at[i].key))
            settings_copy(&out, &file->at[i]);
    for (int i = 0; i < change->give.count; i++)
        settings_copy(&out, &change->give.at[i]);
    return out;
}

/* True if the changed file breaks a rule that the present one keeps. */
static bool breaks_more(struct tuning *t, const struct imported *changed)
{
    const struct target *target = t->job.target;
    struct err found = { 0 };
    const struct target_rule *rule = target_check_file(target, changed, NULL, &found);
    for (; rule; rule = target_check_file(target, changed, rule + 1, &found))
        if (target_check_file(target, t->job.imported, rule, &found) != rule)
            return true;
    return false;
}

static bool reads_as(struct tuning *t, const struct settings *file,
                     const struct flag_change *change, const struct job *job)
{
    struct imported *changed = ARENA_NEW(&t->arena, struct imported);
    struct err ignored = { 0 };
    struct job wanted = *job;
    *changed = (struct imported){ .job = t->job.start,
                                  .given = changed_file(t, file, change),
                                  .unknown.arena = &t->arena,
                                  .ignored.arena = &t->arena,
                                  .nodes = t->job.imported->nodes,
                                  .gpus_per_node = t->job.imported->gpus_per_node };
    changed->job.num_gpus = job->num_gpus;
    if (!target_read(t->job.target, changed, &t->arena, &ignored))
        return false;
    changed->job.one_connection = t->now.one_connection;
    job_tidy(&wanted);
    job_tidy(&changed->job);
    /* the batch may come from the options instead of the file */
    double batch = t->job.imported->job.model.batch / t->now.model.batch * job->model.batch;
    double more = changed->job.model.batch - batch;
    return plan_equal(&changed->job.plan, &wanted.plan) && !(more < 0) && !(more > 0) &&
           !breaks_more(t, changed);
}

/* Finds the settings in which two plans differ, without those that the file already has. */
static void compare(struct tuning *t, const struct settings *file, const struct settings *before,
                    const struct settings *after, struct flag_change *out)
{
    *out = (struct flag_change){ { .arena = &t->arena }, { .arena = &t->arena } };
    for (int i = 0; i < after->count; i++) {
        const struct setting *to = &after->at[i];
        if (!is_equal(to, settings_find(before, to->key)) &&
            !is_equal(to, settings_find(file, to->key)))
            settings_copy(&out->give, to);
    }
    for (int i = 0; i < before->count; i++)
        if (!settings_find(after, before->at[i].key) && settings_find(file, before->at[i].key))
            settings_copy(&out->drop, &before->at[i]);
}

/* Called if the change does not give the wanted plan, as a file may use another key for a setting
 * than an export does. Tries one more change at a time: first to drop a key of the file that
 * `after` lacks, then to add a setting that the file lacks. */
static bool find_other_key(struct tuning *t, const struct settings *file,
                           const struct settings *after, const struct job *job,
                           struct flag_change *out)
{
    for (int i = 0; i < file->count; i++) {
        if (settings_find(after, file->at[i].key) || settings_find(&out->drop, file->at[i].key))
            continue;
        settings_copy(&out->drop, &file->at[i]);
        if (reads_as(t, file, out, job))
            return true;
        out->drop.count--;
    }
    for (int i = 0; i < after->count; i++) {
        if (is_equal(&after->at[i], settings_find(file, after->at[i].key)) ||
            settings_find(&out->give, after->at[i].key))
            continue;
        settings_copy(&out->give, &after->at[i]);
        if (reads_as(t, file, out, job))
            return true;
        out->give.count--;
    }
    return false;
}

bool tune_job_flags(struct tuning *t, const struct job *job, struct flag_change *out)
{
    struct settings file = { .arena = &t->arena };
    settings_write(&t->job.target->table, t->job.imported->args, &file);
    struct settings after = settings_of(t, *job);
    struct settings before = t->unsound.code == ERR_NONE ? settings_of(t, t->now) : file;
    compare(t, &file, &before, &after, out);
    if (t->unsound.code != ERR_NONE)
        out->drop.count = 0; /* settings of the file that are not part of the plan are kept */
    return reads_as(t, &file, out, job) || find_other_key(t, &file, &after, job, out);
}

bool tune_flags(struct tuning *t, const struct plan *plan, struct flag_change *out)
{
    struct job job = t->now;
    job.plan = *plan;
    return tune_job_flags(t, &job, out);
}

bool tune_needs(struct tuning *t, const char *key)
{
    struct settings own = settings_of(t, t->now);
    return settings_find(&own, key) != NULL;
}

const char *flag_change_words(const struct flag_change *change, struct arena *arena)
{
    struct text words = { 0 };
    for (int i = 0; i < change->give.count; i++) {
        text_add(&words, i > 0 ? " " : "set ");
        setting_write(&change->give.at[i], &words);
    }
    for (int i = 0; i < change->drop.count; i++)
        text_add(&words, "%s%s",
                 i > 0                    ? " "
                 : change->give.count > 0 ? ", drop "
                                          : "drop ",
                 change->drop.at[i].key);
    return text_keep(&words, arena);
}
