/* Exports plans to a target and imports them again: the layout is unchanged, and so is the model if
 * the target describes it. */
#include "base/text.h"
#include "interchange/target.h"
#include "tests/search/random_question.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct arena arena;
static char folder[64];

static struct job job_on(const struct question *question, const struct target *target)
{
    struct stack stack;
    struct err err = { 0 };
    ck_assert(stack_load(target->stack, &stack, &err));
    struct job job = job_begin(&stack, &question->system.gpu);
    stack_release(&stack);
    job.model = question->model;
    job.num_gpus = question->system.num_gpus;
    job.gpus_per_node = job.num_gpus % 8 == 0 ? 8 : 1;
    return job;
}

static void write_files(const struct exported *exported)
{
    char path[128];
    ck_assert(mkdtemp(strcpy(folder, "/tmp/round_trip.XXXXXX")));
    for (int i = 0; i < exported->num_files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, exported->files[i].name);
        FILE *file = fopen(path, "w");
        ck_assert(file && fputs(exported->files[i].text, file) >= 0 && fclose(file) == 0);
    }
}

static void remove_files(const struct exported *exported)
{
    char path[128];
    for (int i = 0; i < exported->num_files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, exported->files[i].name);
        unlink(path);
    }
    rmdir(folder);
}

static const char *layout_of(const struct plan *plan)
{
    struct text text = { 0 };
    plan_write(plan, &text);
    return text_keep(&text, &arena);
}

/* The model as text, without the fields that no argument of the target can express. */
static const char *model_text(const struct model *model)
{
    struct model plain = *model;
    snprintf(plain.name, sizeof plain.name, "model");
    plain.source[0] = plain.summary[0] = '\0';
    plain.tokens = 0;
    plain.mtp = 0;
    plain.allowed_seq = 0;
    plain.sliding_window = 0; /* because the target rejects models with windowed blocks */
    plain.qkv_bias = plain.qkv_bias && !plain.linear_bias;
    plain.documents = (struct documents){ 0 };
    if (plain.positions == POSITION_LEARNED && plain.max_positions < plain.seq)
        plain.max_positions = plain.seq;
    json_t *json = model_write(&plain);
    char *text = json_dumps(json, JSON_SORT_KEYS);
    const char *kept = arena_text(&arena, text);
    free(text);
    json_decref(json);
    return kept;
}

/* Exports and imports the job. `words` names the job in messages. */
static void go_round(const struct target *target, const struct job *job, bool knows_model,
                     enum job_launcher launch, const char *words)
{
    struct exported exported;
    struct err err = { 0 };
    struct imported *back = ARENA_NEW(&arena, struct imported);
    char path[128];
    target_export(target, job, launch, &exported, &arena);
    write_files(&exported);
    snprintf(path, sizeof path, "%s/args.txt", folder);
    back->job = *job;
    back->job.plan = plan_default();
    back->job.num_gpus = 0;
    if (knows_model)
        back->job.model = (struct model){ 0 };
    bool ok = target_import(target, path, back, &arena, &err);
    remove_files(&exported);
    const char *layout = layout_of(&job->plan);
    ck_assert_msg(ok, "%s %s %s: %s: %s", target->name, words, layout, err.where, err.msg);
    ck_assert_int_eq(back->job.num_gpus, job->num_gpus);
    ck_assert_msg(strcmp(layout_of(&back->job.plan), layout) == 0, "%s %s: %s was imported as %s",
                  target->name, words, layout, layout_of(&back->job.plan));
    ck_assert_double_eq(back->job.model.batch, job->model.batch);
    ck_assert_msg(!knows_model ||
                      strcmp(model_text(&back->job.model), model_text(&job->model)) == 0,
                  "%s %s:\n%s\n%s", target->name, words, model_text(&job->model),
                  model_text(&back->job.model));
    ck_assert_int_eq(back->unknown.count, 0);
    const struct target_rule *rule = target_check_file(target, back, NULL, &err);
    ck_assert_msg(!rule, "%s %s %s breaks %s: %s", target->name, words, layout,
                  rule ? rule->id : "", err.msg);
}

/* Replaces the model by one of torchtitan's registry. */
static void take_registered(struct question *question)
{
    static const char *const names[] = { "llama3-8b", "llama3-70b", "llama3-405b" };
    struct err err = { 0 };
    double batch = question->model.batch;
    ck_assert(model_load(names[random_below(&question->rng, 3)], &question->model, &err));
    question->model.seq = 4096;
    question->model.batch = batch;
}

/* Draws plans. If the target cannot run a plan, the nearest plan that it can run is used. Ends when
 * `wanted` plans were exported and imported. */
static int round_trips(const struct target *target, int wanted, uint64_t seed)
{
    bool describes = strcmp(target->name, "deepspeed") != 0;
    bool registry = strcmp(target->name, "torchtitan") == 0;
    int done = 0;
    for (int i = 0; i < 40 * wanted && done < wanted; i++) {
        struct question question;
        question_draw(seed + (uint64_t)i, &question);
        if (registry)
            take_registered(&question);
        struct job job = job_on(&question, target);
        if (question_plan(&question, &job.plan) && target_nearest(target, &job, &arena)) {
            go_round(target, &job, describes && !registry,
                     done % 2 ? LAUNCH_SLURM : LAUNCH_TORCHRUN, question.words);
            done++;
        }
        question_release(&question);
        arena_release(&arena);
    }
    return done;
}

START_TEST(exported_plans_import_unchanged)
{
    int wanted = SAMPLED(500, 12);
    ck_assert_int_eq(round_trips(&targets[_i], wanted, 1), wanted);
}
END_TEST

static const char hostile[] = "$(reboot)\n#SBATCH --nodes=9\n'\"`id`";

START_TEST(names_with_shell_syntax_are_not_executed)
{
    struct question question;
    question_draw(7, &question);
    for (int i = 0; i < num_targets; i++) {
        struct job job = job_on(&question, &targets[i]);
        struct exported exported;
        snprintf(job.model.name, sizeof job.model.name, "%s", hostile);
        job.plan = plan_default();
        target_export(&targets[i], &job, LAUNCH_SLURM, &exported, &arena);
        for (int k = 0; k < exported.num_files; k++) {
            ck_assert_ptr_null(strstr(exported.files[k].text, "reboot)"));
            ck_assert_ptr_null(strstr(exported.files[k].text, "nodes=9"));
            ck_assert_ptr_null(strchr(exported.files[k].text, '`'));
        }
    }
    question_release(&question);
    arena_release(&arena);
}
END_TEST

Suite *suite(void);
Suite *suite(void)
{
    Suite *suite = suite_create("round_trip");
    TCase *trips = tcase_create("trips");
    tcase_add_loop_test(trips, exported_plans_import_unchanged, 0, num_targets);
    tcase_add_test(trips, names_with_shell_syntax_are_not_executed);
    suite_add_tcase(suite, trips);
    return suite;
}
TEST_MAIN(suite)
