/* Tests the minimum and the maximum of every number in files: all values that the field tables
 * allow give a prediction whose parts are not negative and sum to the step. */
#include "sim/engine/simulate.h"

#include "sim/engine/event_step.h"
#include "sim/plan/ranks.h"
#include "tests/check_ok.h"
#include "tests/draw.h"
#include "tests/sim/engine/time_parts.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

enum { NUM_GPUS = 16, BATCH = 64 };

/* The structs of all field tables whose numbers a file can set. */
struct machine {
    struct system system;
    struct model model;
};

/* The offset of a table's struct in struct machine. */
static const struct table {
    const char *name;
    const struct field *fields;
    const size_t *count;
    size_t offset;
} tables[] = {
#define TABLE(name, member) \
#name, name##_fields, &num_##name##_fields, offsetof(struct machine, member)
    { TABLE(gpu, system.gpu) },
    { TABLE(cluster, system.cluster) },
    { TABLE(group, system.cluster) },
    { TABLE(level, system.cluster.levels[0]) },
    { TABLE(level, system.cluster.levels[1]) },
    { TABLE(profile, system.profile) },
    { TABLE(attention, system.profile.attention[ATTENTION_FLASH1]) },
    { TABLE(attention, system.profile.attention[ATTENTION_FLASH2]) },
    { TABLE(attention, system.profile.attention[ATTENTION_FLASH3]) },
    { TABLE(stack, system.stack) },
    { TABLE(error_width, system.stack.errors.widths) },
    { TABLE(model, model) },
#undef TABLE
};

static const char *const layouts[] = {
    "mb1 exchange=local:4",
    "tp4 pp2 vpp2 mb1 sp zero1 exchange=gossip:ring",
    "tp2 cp2 mb1 zero3 recompute=full offload=optimizer,activations",
    "tp2 pp4 mb2 attn=unfused schedule=zb-h1 recompute=selective exchange=pga:6",
};

static struct machine shipped;
static struct arena arena;
static struct plan plans[LENGTH(layouts)];

static void setup(void)
{
    struct err err = { 0 };
    check_ok(system_load("dgx-h100", "megatron-core", NUM_GPUS, &shipped.system, &err), &err);
    check_ok(model_load("gpt3-1.3b", &shipped.model, &err), &err);
    shipped.model.batch = BATCH;
    for (int i = 0; i < LENGTH(layouts); i++)
        check_ok(plan_parse(layouts[i], &arena, &plans[i], &err) &&
                     plan_derive_data(&plans[i], NUM_GPUS, &err),
                 &err);
}

static void teardown(void)
{
    system_release(&shipped.system);
    arena_release(&arena);
}

/* --- values ----------------------------------------------------------------------------------- */

static int num_names(const struct field *field)
{
    int count = 0;
    while (field->names[count])
        count++;
    return count;
}

/* Sets a field to a point between its minimum (share 0) and its maximum (share 1). Returns false if
 * the field has no bounds. Ranges above a factor of a thousand are divided logarithmically. */
static bool set(const struct table *table, const struct field *field, double share,
                struct machine *out)
{
    char *slot = (char *)out + table->offset + field->offset;
    bool is_number = field->kind == FIELD_NUMBER || field->kind == FIELD_QUANTITY ||
                     field->kind == FIELD_COUNT || field->kind == FIELD_INT;
    if (is_number && field->max <= field->min)
        return false;
    double value = field->min + share * (field->max - field->min);
    double least = fmax(field->min, 1e-12 * field->max);
    if (field->max > 1e3 * least && share > 0 && share < 1)
        value = least * pow(field->max / least, share);
    switch (field->kind) {
    case FIELD_NUMBER:
    case FIELD_QUANTITY:
        return memcpy(slot, &value, sizeof value);
    case FIELD_COUNT:
        value = round(value);
        return memcpy(slot, &value, sizeof value);
    case FIELD_INT:
        return memcpy(slot, &(int){ (int)fmin(round(value), field->max) }, sizeof(int));
    case FIELD_BOOL:
        return memcpy(slot, &(bool){ share >= 0.5 }, sizeof(bool));
    case FIELD_NAME:
        return memcpy(slot, &(int){ (int)round(share * (num_names(field) - 1)) }, sizeof(int));
    case FIELD_SET:
        return memcpy(slot, &(unsigned){ share < 0.5 ? 0 : (1U << num_names(field)) - 1 },
                      sizeof(unsigned));
    case FIELD_TEXT:
    case FIELD_OTHER:
        return false;
    }
    return false;
}

/* --- conditions ------------------------------------------------------------------------------- */

/* Whether files with these numbers are valid: some numbers of a file must agree with each other. */
static bool is_read(struct machine *machine)
{
    const struct system *system = &machine->system;
    struct system again;
    struct model model;
    struct err err = { 0 };
    json_t *parts[] = { gpu_write(&system->gpu), cluster_write(&system->cluster),
                        profile_write(&system->profile), stack_write(&system->stack),
                        fields_write(model_fields, num_model_fields, &machine->model) };
    bool has_profile = profile_read(parts[2], &again.profile, &err);
    bool has_stack = stack_read(parts[3], &again.stack, &err);
    bool ok = has_profile && has_stack && gpu_read(parts[0], &again.gpu, &err) &&
              cluster_read(parts[1], &again.cluster, &err) && model_read(parts[4], &model, &err) &&
              system_check_attention(system, &err);
    if (has_profile)
        profile_release(&again.profile);
    if (has_stack)
        stack_release(&again.stack);
    for (int i = 0; i < LENGTH(parts); i++)
        json_decref(parts[i]);
    if (ok)
        machine->model = model;
    return ok;
}

/* The engine assumes that rounds of a schedule repeat if they repeat within rounding errors. Over
 * tens of thousands of rounds the rounding errors add up, so bounds are checked with a tolerance.
 */
static void check_bounds(struct evaluator *evaluator, const struct plan *plan, double step_s,
                         const char *what)
{
    const double rounding = 1e-7;
    struct plan less = *plan;
    less.recompute = RECOMPUTE_NONE;
    const double bounds_s[] = { evaluate_bound_s(evaluator, plan),
                                evaluate_floor_s(evaluator, plan),
                                evaluate_floor_s(evaluator, &less) };
    for (int i = 0; i < LENGTH(bounds_s); i++)
        ck_assert_msg(bounds_s[i] <= step_s * (1 + rounding),
                      "%s: lower bound %d is %g s, but the step takes %g s", what, i, bounds_s[i],
                      step_s);
}

static void check_plan(const struct machine *machine, const struct plan *plan, const char *what)
{
    struct evaluator *evaluator = evaluator_new(&machine->system, &machine->model);
    struct prediction p = evaluate(evaluator, plan);
    ck_assert_msg(isfinite(p.step_s) && p.step_s > 0, "%s: the step takes %g s", what, p.step_s);
    ck_assert_msg(isfinite(p.mfu) && p.mfu >= 0, "%s: the MFU is %g", what, p.mfu);
    ck_assert_msg(p.step_low_s <= p.step_s && p.step_s <= p.step_high_s,
                  "%s: the interval %g to %g s does not contain the step of %g s", what,
                  p.step_low_s, p.step_high_s, p.step_s);
    ck_assert_msg(isfinite(p.peak_memory_bytes) && p.peak_memory_bytes > 0,
                  "%s: the peak memory is %g bytes", what, p.peak_memory_bytes);
    check_time_parts(&p, what);
    check_bounds(evaluator, plan, p.step_s, what);
    evaluator_free(evaluator);
}

/* Checks the predictions of all layouts; returns the number of layouts that the machine allows. */
static int check(struct machine *machine, const char *what)
{
    int count = 0;
    if (!is_read(machine))
        return 0;
    for (int i = 0; i < LENGTH(layouts); i++) {
        char name[160];
        struct err err = { 0 };
        const struct plan *plan = &plans[i];
        snprintf(name, sizeof name, "%s, %s", what, layouts[i]);
        if (plan_check(plan, &machine->model, machine->model.batch, NUM_GPUS, &err) ||
            !system_check(&machine->system, plan, &err))
            continue;
        check_plan(machine, plan, name);
        count++;
    }
    return count;
}

/* --- tests ------------------------------------------------------------------------------------ */

START_TEST(plans_are_predicted_at_each_fields_minimum_and_maximum)
{
    const struct table *table = &tables[_i];
    int checked = 0;
    for (size_t i = 0; i < *table->count; i++)
        for (int share = 0; share <= 1; share++) {
            struct machine machine = shipped;
            char what[100];
            snprintf(what, sizeof what, "%s.%s at its %s", table->name, table->fields[i].name,
                     share ? "most" : "least");
            if (set(table, &table->fields[i], share, &machine))
                checked += check(&machine, what);
        }
    ck_assert_int_gt(checked, 0);
}
END_TEST

static struct machine all_of(const struct table *table, int share)
{
    struct machine machine = shipped;
    for (size_t i = 0; i < *table->count; i++) {
        struct machine alone = shipped;
        if (set(table, &table->fields[i], share, &alone) && is_read(&alone))
            set(table, &table->fields[i], share, &machine);
    }
    return machine;
}

START_TEST(plans_are_predicted_with_all_fields_of_a_table_at_a_bound)
{
    for (int share = 0; share <= 1; share++) {
        char what[100];
        snprintf(what, sizeof what, "%s, all at their %s", tables[_i].name,
                 share ? "most" : "least");
        struct machine machine = all_of(&tables[_i], share);
        check(&machine, what);
    }
}
END_TEST

/* A machine with random values in some rows of each table. A table whose values contradict each
 * other keeps its defaults. */
static struct machine random_machine(uint64_t seed)
{
    struct random rng = random_new(seed, 0);
    struct machine machine = shipped;
    for (int i = 0; i < LENGTH(tables); i++) {
        struct machine other = machine;
        double changed = random_unit(&rng) * random_unit(&rng);
        for (size_t j = 0; j < *tables[i].count; j++)
            if (random_unit(&rng) < changed)
                set(&tables[i], &tables[i].fields[j], random_unit(&rng), &other);
        machine = is_read(&other) ? other : machine;
    }
    return machine;
}

START_TEST(parts_add_up_under_random_constants)
{
    int checked = 0;
    for (int seed = 0; seed < SAMPLED(20000, 30); seed++) {
        struct machine machine = random_machine((uint64_t)seed);
        char what[40];
        snprintf(what, sizeof what, "seed %d", seed);
        checked += check(&machine, what);
    }
    ck_assert_int_gt(checked, 0);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("limits");
    tcase_add_unchecked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, plans_are_predicted_at_each_fields_minimum_and_maximum, 0,
                        LENGTH(tables));
    tcase_add_loop_test(tc, plans_are_predicted_with_all_fields_of_a_table_at_a_bound, 0,
                        LENGTH(tables));
    tcase_add_test(tc, parts_add_up_under_random_constants);
    Suite *s = suite_create("sim/engine, at the limits of its files");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
