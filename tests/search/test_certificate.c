/* Tests certificates of searches. With files as arguments, checks the certificates of `search
 * --certificate` in them, one after the other. */
#include "search/certificate.h"

#include "base/json.h"
#include "base/random.h"
#include "tests/draw.h"
#include "tests/search/certificate_check.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

/* --- changes that make a certificate wrong ----------------------------------------------------
 */

/* A change of a certificate. Returns false if the certificate has nothing that this change could
 * apply to. */
typedef bool change(struct random *rng, json_t *certificate);

static json_t *families_of(json_t *certificate)
{
    return json_object_get(certificate, "families");
}

/* A family is a set of plans, its members, that differ only in ZeRO and recompute. Returns whether
 * the checker evaluates the members of every family. It then finds every wrong floor (lower bound
 * of a family). */
static bool is_checked_in_full(json_t *certificate)
{
    return json_array_size(families_of(certificate)) < CERTIFICATE_SAMPLED;
}

/* Returns the first family, from a random start, that has a list of members or, if `has_members` is
 * false, has none. */
static json_t *a_family(struct random *rng, json_t *certificate, bool has_members)
{
    json_t *families = families_of(certificate);
    size_t count = json_array_size(families);
    size_t start = count > 0 ? (size_t)random_below(rng, (int)count) : 0;
    for (size_t i = 0; i < count; i++) {
        json_t *family = json_array_get(families, (start + i) % count);
        const json_t *members = json_object_get(family, "members");
        if (has_members ? json_array_size(members) > 0 : members == NULL)
            return family;
    }
    return NULL;
}

/* Returns the row of a random member that was excluded for this reason; NULL means any reason. */
static json_t *a_row(struct random *rng, json_t *certificate, const char *why)
{
    json_t *families = families_of(certificate);
    size_t count = json_array_size(families);
    size_t start = count > 0 ? (size_t)random_below(rng, (int)count) : 0, j;
    json_t *row;
    for (size_t i = 0; i < count; i++) {
        json_t *family = json_array_get(families, (start + i) % count);
        json_array_foreach (json_object_get(family, "members"), j, row)
            if (!why || strcmp(json_string_value(json_array_get(row, 1)), why) == 0)
                return row;
    }
    return NULL;
}

static json_t *answer_of(json_t *certificate)
{
    return json_object_get(certificate, "answer");
}

static bool has_answer(json_t *certificate)
{
    return json_is_object(answer_of(certificate));
}

static double answer_s(json_t *certificate)
{
    return json_real_value(json_object_get(answer_of(certificate), "step_s"));
}

static bool set_row(json_t *row, const char *why, double value)
{
    if (!row)
        return false;
    json_array_set_new(row, 1, json_string(why));
    json_array_set_new(row, 2, json_real(value));
    return true;
}

static bool answer_is_faster(struct random *rng, json_t *certificate)
{
    (void)rng;
    return has_answer(certificate) &&
           json_object_set_new(answer_of(certificate), "step_s",
                               json_real(0.99 * answer_s(certificate))) == 0;
}

static bool answer_is_another(struct random *rng, json_t *certificate)
{
    (void)rng;
    const char *layout = json_string_value(json_object_get(answer_of(certificate), "layout"));
    char other[512];
    if (!layout)
        return false;
    snprintf(other, sizeof other, "%s optimizer=sgd", layout);
    json_object_set_new(answer_of(certificate), "layout", json_string(other));
    return true;
}

static bool family_is_missing(struct random *rng, json_t *certificate)
{
    json_t *families = families_of(certificate);
    int count = (int)json_array_size(families);
    return count > 0 && json_array_remove(families, (size_t)random_below(rng, count)) == 0;
}

static bool family_is_twice(struct random *rng, json_t *certificate)
{
    json_t *families = families_of(certificate);
    int count = (int)json_array_size(families);
    size_t number = count > 0 ? (size_t)random_below(rng, count) : 0;
    return count > 0 &&
           json_array_append_new(families, json_deep_copy(json_array_get(families, number))) == 0;
}

static bool family_is_of_no_list(struct random *rng, json_t *certificate)
{
    (void)rng;
    json_t *family = json_pack("{s:f}", "floor_s", 1e9);
    json_object_set_new(family, "first", json_string("tp1 pp1 dp1 mb1024"));
    return json_array_append_new(families_of(certificate), family) == 0;
}

static bool floor_is_too_high(struct random *rng, json_t *certificate)
{
    json_t *family = a_family(rng, certificate, false);
    return family && is_checked_in_full(certificate) &&
           json_object_set_new(family, "floor_s", json_real(1e9)) == 0;
}

static bool floor_is_under_the_answer(struct random *rng, json_t *certificate)
{
    json_t *family = a_family(rng, certificate, false);
    return family && has_answer(certificate) && !json_object_get(family, "floor_bytes") &&
           json_object_set_new(family, "floor_s", json_real(0.999 * answer_s(certificate))) == 0;
}

static bool time_is_another(struct random *rng, json_t *certificate)
{
    json_t *row = a_row(rng, certificate, "time");
    return row && set_row(row, "time", 1.001 * json_real_value(json_array_get(row, 2)));
}

static bool member_is_said_not_to_fit(struct random *rng, json_t *certificate)
{
    return set_row(a_row(rng, certificate, "time"), "memory", 1e12);
}

static bool bound_is_made_up(struct random *rng, json_t *certificate)
{
    return set_row(a_row(rng, certificate, "time"), "bound", 1e9);
}

static bool bound_is_too_low(struct random *rng, json_t *certificate)
{
    return has_answer(certificate) &&
           set_row(a_row(rng, certificate, "bound"), "bound", 0.9 * answer_s(certificate));
}

static bool member_is_missing(struct random *rng, json_t *certificate)
{
    json_t *family = a_family(rng, certificate, true);
    json_t *members = json_object_get(family, "members");
    return members && json_array_remove(
                          members, (size_t)random_below(rng, (int)json_array_size(members))) == 0;
}

static bool members_are_ruled_out_by_the_floor(struct random *rng, json_t *certificate)
{
    json_t *family = a_family(rng, certificate, true);
    return family && is_checked_in_full(certificate) &&
           json_object_set_new(family, "floor_s", json_real(2 * answer_s(certificate))) == 0 &&
           json_object_del(family, "members") == 0;
}

static bool memory_floor_is_made_up(struct random *rng, json_t *certificate)
{
    json_t *family = a_family(rng, certificate, true);
    return family && is_checked_in_full(certificate) &&
           json_object_set_new(family, "floor_bytes", json_real(1e15)) == 0 &&
           json_object_del(family, "members") == 0;
}

static bool memory_floor_is_too_low(struct random *rng, json_t *certificate)
{
    json_t *families = families_of(certificate);
    size_t count = json_array_size(families);
    for (size_t i = 0, start = (size_t)random_below(rng, 1000); i < count; i++) {
        json_t *family = json_array_get(families, (start + i) % count);
        if (json_object_get(family, "floor_bytes"))
            return json_object_set_new(family, "floor_bytes", json_real(1)) == 0;
    }
    return false;
}

static bool answer_is_missing(struct random *rng, json_t *certificate)
{
    (void)rng;
    return has_answer(certificate) && json_object_set_new(certificate, "answer", json_null()) == 0;
}

/* No plan is feasible, but the certificate says that a member is the answer. */
static bool answer_is_claimed(struct random *rng, json_t *certificate)
{
    json_t *row = a_row(rng, certificate, "memory");
    const char *layout = json_string_value(json_array_get(row, 0));
    return row && set_row(row, "time", 1) &&
           json_object_set_new(certificate, "answer",
                               json_pack("{s:s, s:f}", "layout", layout, "step_s", 1.0)) == 0;
}

static bool split_is_missing(struct random *rng, json_t *certificate)
{
    (void)rng;
    json_t *splits = json_object_get(json_object_get(certificate, "space"), "splits");
    return json_array_remove(splits, 0) == 0; /* removes the split of the layers for pp1 */
}

/* Removes a split that has multi-token-prediction (MTP) modules or the head in a chunk without
 * layers, and all families of this split. */
static bool later_split_is_missing(struct random *rng, json_t *certificate)
{
    json_t *splits = json_object_get(json_object_get(certificate, "space"), "splits");
    size_t count = json_array_size(splits), i;
    char words[512];
    for (size_t start = (size_t)random_below(rng, 1000), j = 0; j < count; j++) {
        const char *split = json_string_value(json_array_get(splits, i = (start + j) % count));
        const char *stages = strstr(split, "stages=");
        if (!stages || !strstr(stages, " mtp=apart"))
            continue;
        snprintf(words, sizeof words, "%s", stages);
        json_array_remove(splits, i);
        for (size_t k = json_array_size(families_of(certificate)); k-- > 0;)
            if (strstr(json_string_value(
                           json_object_get(json_array_get(families_of(certificate), k), "first")),
                       words))
                json_array_remove(families_of(certificate), k);
        return true;
    }
    return false;
}

/* Appends, to the last split, words that do not belong in a split. */
static bool split_is_another(struct random *rng, json_t *certificate)
{
    json_t *splits = json_object_get(json_object_get(certificate, "space"), "splits");
    char other[512];
    size_t last = json_array_size(splits) - 1;
    (void)rng;
    snprintf(other, sizeof other, "%s mb2 vpp64", json_string_value(json_array_get(splits, last)));
    return json_array_set_new(splits, last, json_string(other)) == 0;
}

static bool has_two_stages(json_t *certificate)
{
    size_t i;
    json_t *split;
    json_array_foreach (json_object_get(json_object_get(certificate, "space"), "splits"), i, split)
        if (strstr(json_string_value(split), "pp2 "))
            return true;
    return false;
}

/* Replaces "even chunks" in the space's name. The named space then also has splits that count
 * embedding and loss as layers; with two stages, at least one such split is missing from the
 * certificate. */
static bool space_is_named_otherwise(struct random *rng, json_t *certificate)
{
    (void)rng;
    const char *name = json_string_value(json_object_get(certificate, "space_name"));
    char other[512];
    if (!strstr(name, "even chunks") || !has_two_stages(certificate))
        return false;
    snprintf(other, sizeof other, "layers divided as Megatron can%s",
             strstr(name, "even chunks") + 11);
    return json_object_set_new(certificate, "space_name", json_string(other)) == 0;
}

static bool fixed_word_is_another(struct random *rng, json_t *certificate)
{
    (void)rng;
    json_t *space = json_object_get(certificate, "space");
    return json_object_set_new(space, "fixed", json_string("mb2 zero1 recompute=full")) == 0;
}

static bool has_row_of(json_t *certificate, const char *words)
{
    size_t i, j;
    json_t *family, *row;
    json_array_foreach (families_of(certificate), i, family)
        json_array_foreach (json_object_get(family, "members"), j, row)
            if (strstr(json_string_value(json_array_get(row, 0)), words))
                return true;
    return false;
}

/* Gives a space with all sets of recomputed modules the name of a space that recomputes only
 * attention's core, or the other way round. */
static bool parts_are_others(struct random *rng, json_t *certificate)
{
    (void)rng;
    static const char words[] = "; selective recompute of the fastest modules that fit";
    const char *name = json_string_value(json_object_get(certificate, "space_name"));
    const char *at = strstr(name, words);
    char other[512];
    if (at)
        snprintf(other, sizeof other, "%.*s%s", (int)(at - name), name, at + strlen(words));
    else
        snprintf(other, sizeof other, "%s%s", name, words);
    return has_row_of(certificate, at ? "recompute=selective:" : "recompute=selective") &&
           json_object_set_new(certificate, "space_name", json_string(other)) == 0;
}

/* Replaces the layout in a timed plan's row by that of another plan. */
static bool timed_layout_is_another(struct random *rng, json_t *certificate)
{
    json_t *row = a_row(rng, certificate, "time");
    char other[512];
    if (!row)
        return false;
    snprintf(other, sizeof other, "%s grad=fp32 optimizer=sgd",
             json_string_value(json_array_get(row, 0)));
    return json_array_set_new(row, 0, json_string(other)) == 0;
}

static bool one_row_is_for_every_set(struct random *rng, json_t *certificate)
{
    json_t *row = a_row(rng, certificate, "time");
    return row && strstr(json_string_value(json_array_get(row, 0)), "recompute=selective:") &&
           json_array_append_new(row, json_string("every set")) == 0;
}

static change *const changes[] = {
    split_is_another,
    space_is_named_otherwise,
    fixed_word_is_another,
    parts_are_others,
    timed_layout_is_another,
    one_row_is_for_every_set,
    answer_is_faster,
    answer_is_another,
    family_is_missing,
    family_is_twice,
    family_is_of_no_list,
    floor_is_too_high,
    floor_is_under_the_answer,
    time_is_another,
    member_is_said_not_to_fit,
    bound_is_made_up,
    bound_is_too_low,
    member_is_missing,
    members_are_ruled_out_by_the_floor,
    memory_floor_is_made_up,
    memory_floor_is_too_low,
    answer_is_missing,
    answer_is_claimed,
    split_is_missing,
    later_split_is_missing,
};

/* --- certificates of searches ------------------------------------------------------------------
 */

/* Numbers of certificates that were accepted, and of changed certificates that were rejected. */
static struct {
    int accepted, of_experts, of_parts, of_modules, refused;
} counts;

static void print_counts(const char *which)
{
    if (is_campaign())
        printf("%s: %d certificates accepted (%d of models with experts, %d of spaces with all "
               "sets of recomputed modules, %d of models with MTP modules); %d changed "
               "certificates rejected\n",
               which, counts.accepted, counts.of_experts, counts.of_parts, counts.of_modules,
               counts.refused);
}

static void check_changes(struct random *rng, const json_t *certificate,
                          const struct instance *instance)
{
    int applied = 0;
    for (int i = 0; i < LENGTH(changes); i++) {
        struct err err = { 0 };
        json_t *changed = json_deep_copy(certificate);
        if (changes[i](rng, changed)) {
            applied++;
            ck_assert_msg(!certificate_check(changed, &instance->system, &instance->model, &err),
                          "change %d was accepted", i);
            ck_assert_int_ne(err.code, ERR_NONE);
            counts.refused++;
        }
        json_decref(changed);
    }
    ck_assert_int_ge(applied, json_is_null(json_object_get(certificate, "answer")) ? 1 : 10);
}

enum { NUM_CERTIFICATES = 50, IN_THE_GATE = 2 };

static struct search_request draw_request(const struct instance *instance, int seed,
                                          struct random *rng)
{
    static const char *const fixed[] = { "", "", "", "mb1", "zero0", "recompute=none", "tp2 sp1" };
    struct search_request request = instance_request(instance);
    request.oom_risk = seed % 2 == 0 ? 0.05 : 0;
    request.fix = fixed[random_below(rng, LENGTH(fixed))];
    if (!*request.fix)
        request.fix = NULL; /* the certificate then fixes "" */
    request.chunks = seed % 4 == 0;
    request.recompute_modules = seed % 3 != 0;
    return request;
}

static void check_certificate(const struct instance *instance, const struct search_request *request,
                              const struct search_result *result, int seed, struct random *rng)
{
    struct err err = { 0 };
    const struct scored_plan *answer = result->num_top > 0 ? &result->top[0] : NULL;
    json_t *certificate = certificate_of(request, answer, &err);
    ck_assert_msg(certificate, "seed %d: %s %s", seed, err.where, err.msg);
    bool ok = certificate_check(certificate, &instance->system, &instance->model, &err);
    ck_assert_msg(ok, "seed %d: %s: %s", seed, err.where, err.msg);
    counts.accepted++;
    counts.of_experts += instance->model.experts > 0;
    counts.of_parts += request->recompute_modules;
    counts.of_modules += instance->model.mtp > 0;
    check_changes(rng, certificate, instance);
    json_decref(certificate);
}

/* Random instances include models with experts, and questions without a feasible plan because of
 * memory or divisors. `shrink` multiplies the memory of a GPU, so that hardly any plan is feasible.
 * Returns whether any plan was feasible. */
static bool check_seed(int seed, double shrink)
{
    struct instance instance;
    struct random rng = random_new((uint64_t)seed, 5);
    instance_load(&instance);
    instance_randomize(&instance, (uint64_t)seed);
    if (instance.system.num_gpus <= 12 && seed % 2 == 1)
        instance.model.mtp = PICK(&rng, 1, 2);
    instance.system.gpu.memory_bytes *= shrink;
    struct search_request request = draw_request(&instance, seed, &rng);
    struct search_result result = search_of(&request);
    bool found = result.num_top > 0;
    check_certificate(&instance, &request, &result, seed, &rng);
    search_result_release(&result);
    instance_release(&instance);
    return found;
}

START_TEST(valid_certificates_pass_and_changed_ones_fail)
{
    int wanted = SAMPLED(NUM_CERTIFICATES, IN_THE_GATE);
    for (int seed = 1; wanted > 0; seed++)
        wanted -= check_seed(seed, 1);
    print_counts("with an answer");
}
END_TEST

START_TEST(certificates_of_infeasibility_pass_and_changed_ones_fail)
{
    int wanted = SAMPLED(NUM_CERTIFICATES, IN_THE_GATE);
    for (int seed = 1; wanted > 0; seed++)
        wanted -= !check_seed(seed, seed % 2 == 0 ? 0.3 : 0.1);
    print_counts("without a feasible plan");
}
END_TEST

START_TEST(a_certificate_without_fixed_words_states_none)
{
    struct instance instance;
    struct err err = { 0 };
    instance_load(&instance);
    struct search_request request = instance_request(&instance);
    request.fix = NULL;
    struct search_result result = search_of(&request);
    ck_assert_int_gt(result.num_top, 0);
    json_t *certificate = certificate_of(&request, &result.top[0], &err);
    ck_assert_msg(certificate, "%s: %s", err.where, err.msg);
    const json_t *space = json_object_get(certificate, "space");
    ck_assert_str_eq(json_string_value(json_object_get(space, "fixed")), "");
    json_decref(certificate);
    search_result_release(&result);
    instance_release(&instance);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("certificate");
    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, valid_certificates_pass_and_changed_ones_fail);
    tcase_add_test(tc, certificates_of_infeasibility_pass_and_changed_ones_fail);
    tcase_add_test(tc, a_certificate_without_fixed_words_states_none);
    Suite *s = suite_create("certificate");
    suite_add_tcase(s, tc);
    return s;
}

/* --- certificates in files ---------------------------------------------------------------------
 */

/* The question in the certificate has the same keys (model, cluster, stack, GPUs) as a plan file.
 */
static bool load_question(const json_t *certificate, struct system *system, struct model *model,
                          struct err *err)
{
    const json_t *question = json_object_get(certificate, "question");
    system->num_gpus = (int)json_integer_value(json_object_get(certificate, "gpus"));
    return gpu_read(json_object_get(question, "gpu"), &system->gpu, err) &&
           cluster_read(json_object_get(question, "cluster"), &system->cluster, err) &&
           profile_read(json_object_get(question, "profile"), &system->profile, err) &&
           stack_read(json_object_get(question, "stack"), &system->stack, err) &&
           model_read(json_object_get(question, "model"), model, err);
}

static bool check_file(const char *path)
{
    struct json_file file = { 0 };
    struct system system = { 0 };
    struct model model = { 0 };
    struct err err = { 0 };
    bool ok = json_file_load(&file, path, &err) &&
              load_question(file.root, &system, &model, &err) &&
              certificate_check(file.root, &system, &model, &err);
    printf("%s: %s%s%s%s\n", path, ok ? "holds" : "refused: ", err.where, ok ? "" : ": ", err.msg);
    system_release(&system);
    json_file_release(&file);
    return ok;
}

int main(int argc, char **argv)
{
    bool ok = true;
    for (int i = 1; i < argc; i++)
        ok = check_file(argv[i]) && ok;
    return argc > 1 ? !ok : run_suite(suite());
}
