#include "tests/testing.h"

#include "base/file.h"
#include "base/json.h"
#include "sim/engine/simulate.h"
#include "sim/plan/ranks.h"
#include "tests/check_ok.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whole predictions, tests/golden/NAME.in.json -> NAME.out.json; tests/golden/README.md says how to
 * write them anew. */
static const char folder[] = "tests/golden";

static char **names; /* "bloom-jean-zay.in" ... */
static int num_names;

/* --- what is asked ------------------------------------------------------------------------------
 */

struct question {
    char model[64], cluster[64], stack[64], layout[256];
    int num_gpus;
    double batch; /* sequences */
};

static void read_text(const json_t *root, const char *key, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(root, key));
    ck_assert_msg(text && strlen(text) < size, "\"%s\": expected a text", key);
    strcpy(out, text);
}

static struct question read_question(const char *path)
{
    static const char *const keys[] = { "model", "batch", "cluster", "stack", "gpus", "layout" };
    struct json_file file = { 0 };
    struct err err = { 0 };
    struct question question;
    check_ok(json_file_load(&file, path, &err), &err);
    check_ok(json_only_keys(file.root, keys, LENGTH(keys), &err), &err);
    read_text(file.root, "model", question.model, sizeof question.model);
    read_text(file.root, "cluster", question.cluster, sizeof question.cluster);
    read_text(file.root, "stack", question.stack, sizeof question.stack);
    read_text(file.root, "layout", question.layout, sizeof question.layout);
    question.num_gpus = (int)json_integer_value(json_object_get(file.root, "gpus"));
    question.batch = json_number_value(json_object_get(file.root, "batch"));
    json_file_release(&file);
    return question;
}

/* --- what is answered ---------------------------------------------------------------------------
 */

struct member {
    const char *name;
    size_t offset;
};

#define MEMORY(member)                                 \
    {                                                  \
#member, offsetof(struct stage_memory, member) \
    }
static const struct member memory_members[] = {
    MEMORY(weights_bytes),     MEMORY(gradients_bytes), MEMORY(optimizer_bytes),
    MEMORY(activations_bytes), MEMORY(logits_bytes),    MEMORY(recompute_bytes),
    MEMORY(buckets_bytes),     MEMORY(library_bytes),   MEMORY(allocated_bytes),
    MEMORY(slack_bytes),       MEMORY(network_bytes),   MEMORY(context_bytes),
    MEMORY(total_bytes),
};
enum { NUM_MEMORY_MEMBERS = LENGTH(memory_members) };

static json_t *stage_json(const struct stage_memory *memory)
{
    json_t *object = json_object();
    for (int i = 0; i < NUM_MEMORY_MEMBERS; i++) {
        const char *at = (const char *)memory + memory_members[i].offset;
        json_object_set_new(object, memory_members[i].name,
                            json_real(*(const double *)(const void *)at));
    }
    return object;
}

static json_t *prediction_json(const struct prediction *p)
{
    json_t *time = json_object();
    for (int i = 0; i < num_time_parts; i++)
        json_object_set_new(time, time_part_table[i].name, json_real(time_part_s(&p->time, i)));
    json_t *stages = json_array();
    for (int s = 0; s < p->num_stages; s++)
        json_array_append_new(stages, stage_json(&p->stages[s]));
    return json_pack("{s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:o, s:o}", "fits",
                     p->fits, "step_s", p->step_s, "step_low_s", p->step_low_s, "step_high_s",
                     p->step_high_s, "tokens_per_s", p->tokens_per_s, "mfu", p->mfu, "hfu", p->hfu,
                     "peak_memory_bytes", p->peak_memory_bytes, "peak_stage", p->peak_stage,
                     "busiest_stage", p->busiest_stage, "num_microbatches", p->num_microbatches,
                     "time", time, "stages", stages);
}

static json_t *answer(const struct question *question)
{
    struct system system;
    struct model model;
    struct plan plan;
    struct arena arena = { 0 };
    struct err err = { 0 };
    check_ok(system_load(question->cluster, question->stack, question->num_gpus, &system, &err),
             &err);
    check_ok(model_load(question->model, &model, &err), &err);
    model.batch = question->batch;
    check_ok(plan_parse(question->layout, &arena, &plan, &err) &&
                 plan_derive_data(&plan, question->num_gpus, &err) &&
                 !plan_check(&plan, &model, model.batch, question->num_gpus, &err) &&
                 system_check(&system, &plan, &err),
             &err);
    struct evaluator *evaluator = evaluator_new(&system, &model);
    struct prediction prediction = evaluate(evaluator, &plan);
    json_t *json = prediction_json(&prediction);
    evaluator_free(evaluator);
    arena_release(&arena);
    system_release(&system);
    return json;
}

/* --- what is expected ---------------------------------------------------------------------------
 */

static void check_equal(json_t *got, json_t *expected, const char *where);

static void check_object(json_t *got, json_t *expected, const char *where)
{
    const char *key;
    json_t *value;
    ck_assert_msg(json_object_size(got) == json_object_size(expected), "%s: other keys", where);
    json_object_foreach (expected, key, value) {
        char path[256];
        snprintf(path, sizeof path, "%s.%s", where, key);
        check_equal(json_object_get(got, key), value, path);
    }
}

static void check_array(json_t *got, json_t *expected, const char *where)
{
    ck_assert_msg(json_array_size(got) == json_array_size(expected), "%s: other length", where);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s[%zu]", where, i);
        check_equal(json_array_get(got, i), json_array_get(expected, i), path);
    }
}

/* Numbers agree to 1e-9 relative, or to 1e-12 s for pure rounding residues. */
static void check_number(double got, double expected, const char *where)
{
    ck_assert_msg(fabs(got - expected) <= 1e-9 * fabs(expected) + 1e-12,
                  "%s: expected %.17g; found %.17g (%+.3g %%)", where, expected, got,
                  100 * (got / expected - 1));
}

static void check_equal(json_t *got, json_t *expected, const char *where)
{
    ck_assert_msg(got != NULL, "%s: is missing", where);
    if (json_is_object(expected))
        check_object(got, expected, where);
    else if (json_is_array(expected))
        check_array(got, expected, where);
    else if (json_is_number(expected))
        check_number(json_number_value(got), json_number_value(expected), where);
    else
        ck_assert_msg(json_equal(got, expected), "%s: expected the other", where);
}

static bool should_write(void)
{
    const char *golden = getenv("SIMSEARCH_GOLDEN");
    return golden && strcmp(golden, "write") == 0;
}

static void write_expected(const char *path, const json_t *json)
{
    struct err err = { 0 };
    char *text = json_text(json, 2);
    check_ok(file_write(path, text, strlen(text), &err), &err);
    free(text);
}

static void check_expected(const char *path, json_t *got)
{
    struct json_file file = { 0 };
    struct err err = { 0 };
    check_ok(json_file_load(&file, path, &err), &err);
    check_equal(got, file.root, path);
    json_file_release(&file);
}

START_TEST(a_prediction_is_what_it_was)
{
    char in_path[256], out_path[256];
    const char *name = names[_i];
    int stem = (int)strlen(name) - (int)strlen(".in");
    snprintf(in_path, sizeof in_path, "%s/%s.json", folder, name);
    snprintf(out_path, sizeof out_path, "%s/%.*s.out.json", folder, stem, name);
    struct question question = read_question(in_path);
    json_t *got = answer(&question);
    if (should_write())
        write_expected(out_path, got);
    else
        check_expected(out_path, got);
    json_decref(got);
}
END_TEST

START_TEST(there_are_ten_goldens)
{
    ck_assert_int_ge(num_names, 10);
}
END_TEST

/* NAME.in.json in the folder; the rest is freed. */
static void find_names(void)
{
    size_t count;
    names = file_list_json(folder, &count);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        if (length > 3 && strcmp(names[i] + length - 3, ".in") == 0)
            names[num_names++] = names[i];
        else
            free(names[i]);
    }
}

static Suite *suite(void)
{
    find_names();
    TCase *tc = tcase_create("golden");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, there_are_ten_goldens);
    tcase_add_loop_test(tc, a_prediction_is_what_it_was, 0, num_names);
    Suite *s = suite_create("golden");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
