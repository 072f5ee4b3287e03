#include "base/file.h"
#include "base/json_layout.h"
#include "base/normal.h"
#include "base/random.h"
#include "base/statistics.h"
#include "calibration/fit/leave_out.h"
#include "calibration/fit/shipped_runs.h"
#include "calibration/learn/learn.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- made rows ------------------------------------------------------------------------------- */

enum { MOST_ROWS = MOST_LEARNED_GPUS + 1 };
static const struct learn_prior prior = {
    .of = { { 0.1, 1e5 }, { 0.1, 1e5 }, { 0.1, 1e5 } }, .core = 0.05, .scatter = 0.05, .sources = 9
};

/* Rows (measured runs) of one stack (training software) whose measured time is `factor` times the
 * prediction. */
static struct {
    struct system system;
    struct run_row row[MOST_ROWS];
    struct run_case cases[MOST_ROWS];
    struct run_prediction predictions[MOST_ROWS];
    struct lessons lessons;
} made;

static void make(const double *factor, int count)
{
    memset(&made, 0, sizeof made);
    snprintf(made.system.stack.name, sizeof made.system.stack.name, "megatron-core");
    snprintf(made.system.profile.name, sizeof made.system.profile.name, "h100-80g-sxm");
    made.system.stack.errors.widths.common = 0.06;
    for (int i = 0; i < count; i++) {
        made.row[i] = (struct run_row){ .id = "row",
                                        .source_key = "mine",
                                        .config_group = "",
                                        .measured_iter_s = 2 * factor[i],
                                        .measured_tokens_per_s_per_gpu = -1,
                                        .derived_iter_s = -1 };
        made.cases[i] =
            (struct run_case){ .row = &made.row[i], .skip = "", .system = &made.system };
        made.predictions[i] = (struct run_prediction){ .step_s = 2, .time.compute_s = 2 };
    }
}

/* Learns from the first `count` rows; returns what was learned about their stack. */
static const struct learned_stack *learn(int count, const struct learned *earlier)
{
    learn_from(made.cases, made.predictions, count, &prior, earlier, &made.lessons);
    return learned_find(&made.lessons.overlay, &made.system.stack, false);
}

/* Mean and standard deviation of the product of the prior's normal density, of deviation 0.1, and
 * of the rows' t densities of scale 0.05, by sums over 200,000 points. */
static void integrate(const double *factor, int count, double *mean, double *deviation)
{
    double sums[3] = { 0 };
    for (int k = -100000; k < 100000; k++) {
        double x = 1e-5 * k;
        double density = exp(-50 * x * x);
        for (int i = 0; i < count; i++) {
            double t = (log(factor[i]) - x) / 0.05;
            density *= pow(2 + t * t, -1.5);
        }
        sums[0] += density;
        sums[1] += density * x;
        sums[2] += density * x * x;
    }
    *mean = sums[1] / sums[0];
    *deviation = sqrt(sums[2] / sums[0] - *mean * *mean);
}

/* One row took 20 % longer than predicted, so the learned ratio lies between 1 and 1.2. */
START_TEST(a_ratio_is_shrunk_by_the_variance_between_sources)
{
    static const double factors[] = { 1.2, 1.15, 1.16 };
    for (int n = 1; n <= 3; n++) {
        double mean, deviation;
        integrate(factors, n, &mean, &deviation);
        make(factors, n);
        const struct learned_stack *got = learn(n, NULL);
        ck_assert_ptr_nonnull(got);
        ck_assert_double_eq_tol(log(got->factor.time_ratio), mean, 1e-4);
        ck_assert_double_eq_tol(got->factor.ratio_error, deviation, 1e-4);
        ck_assert(mean > 0.05 && mean < log(1.2));
        ck_assert_int_eq(learned_runs(got), n);
        ck_assert_str_eq(got->gpus[0].profile, "h100-80g-sxm");
        ck_assert_double_eq(made.lessons.at[0].ratio_before, 1);
        ck_assert_double_eq(made.lessons.at[0].error_before, 0.1);
        learned_release(&made.lessons.overlay);
    }
}
END_TEST

/* Five rows took 1.05 times the predicted time, and one took 2.5 times. The one row changes the
 * learned ratio by less than 1 %, whereas it would change a mean by 15 %. */
START_TEST(a_row_far_from_the_others_hardly_counts)
{
    static const double factors[] = { 1.05, 1.05, 1.05, 1.05, 1.05, 2.5 };
    make(factors, 5);
    double without = learn(5, NULL)->factor.time_ratio;
    learned_release(&made.lessons.overlay);
    make(factors, 6);
    double with = learn(6, NULL)->factor.time_ratio;
    learned_release(&made.lessons.overlay);
    ck_assert_double_ge(with, without);
    ck_assert_double_le(with, 1.01 * without);
}
END_TEST

START_TEST(learning_rows_in_turn_equals_learning_them_at_once)
{
    static const double factors[] = { 1.2, 1.1, 0.97 };
    make(factors, 3);
    struct learned_stack at_once = *learn(3, NULL);
    learned_release(&made.lessons.overlay);
    struct learned before = { 0 };
    for (int i = 0; i < 3; i++) {
        make(&factors[i], 1);
        learn(1, &before);
        learned_release(&before);
        before = made.lessons.overlay;
    }
    ck_assert_int_eq(before.count, 1);
    ck_assert_double_eq_tol(before.at[0].factor.time_ratio, at_once.factor.time_ratio, 1e-12);
    ck_assert_double_eq_tol(before.at[0].factor.ratio_error, at_once.factor.ratio_error, 1e-12);
    ck_assert_int_eq(learned_runs(&before.at[0]), 3);
    learned_release(&before);
}
END_TEST

START_TEST(rows_that_cannot_be_learned_are_named_with_the_reason)
{
    make((double[]){ 1.1, 4, 1.1, 1.2, 1 }, 5);
    made.cases[0].skip = "mbs is not stated";
    made.row[2].config_group = made.row[3].config_group = "same";
    made.row[4].measured_iter_s = -1;
    learn(5, NULL);
    ck_assert_int_eq(made.lessons.used, 1);
    ck_assert_str_eq(made.lessons.reason[0], "mbs is not stated");
    ck_assert_ptr_nonnull(strstr(made.lessons.reason[1], "off by a factor of 4.0"));
    ck_assert_ptr_nonnull(strstr(made.lessons.reason[2], "same configuration"));
    ck_assert_str_eq(made.lessons.reason[3], "");
    ck_assert_ptr_nonnull(strstr(made.lessons.reason[4], "no time or throughput"));
    learned_release(&made.lessons.overlay);
}
END_TEST

START_TEST(without_rows_nothing_is_learned)
{
    make(NULL, 0);
    ck_assert_ptr_null(learn(0, NULL));
    ck_assert_int_eq(made.lessons.used, 0);
    ck_assert_int_eq(made.lessons.count, 0);
    learned_release(&made.lessons.overlay);
}
END_TEST

/* --- several GPUs ---------------------------------------------------------------------------- */

/* Two GPUs that were never measured; half of the variance of a new GPU's shift is common to all
 * GPUs of the stack. */
static const struct learn_prior prior_of_gpus = {
    .of = { { 0.1, 1e5 }, { 0.1, 1e5 }, { 0.1 * 1.41421356237, 1e5 } },
    .core = 0.05,
    .scatter = 0.05,
    .sources = 9,
};

/* Computes three posterior means by sums over 200 x 200 x 200 points: the shift of GPU 0, the shift
 * of GPU 1, and the part of the shift that both GPUs share. The first row is on GPU 1, the others
 * are on GPU 0. */
static void integrate_gpus(const double *factor, int count, double mean[3])
{
    enum { POINTS = 200 };
    double sums[4] = { 0 };
    for (int i = 0; i < POINTS; i++) {
        double shared = 0.008 * (i - POINTS / 2);
        double of[2][2] = { { 0 } };
        for (int gpu = 0; gpu < 2; gpu++)
            for (int k = 0; k < POINTS; k++) {
                double own = 0.008 * (k - POINTS / 2), density = exp(-50 * own * own);
                for (int row = gpu ? 0 : 1; row < (gpu ? 1 : count); row++) {
                    double t = (log(factor[row]) - shared - own) / 0.05;
                    density *= pow(2 + t * t, -1.5);
                }
                of[gpu][0] += density;
                of[gpu][1] += density * (shared + own);
            }
        double prior_density = exp(-50 * shared * shared);
        sums[0] += prior_density * of[0][1] * of[1][0];
        sums[1] += prior_density * of[0][0] * of[1][1];
        sums[2] += prior_density * of[0][0] * of[1][0] * shared;
        sums[3] += prior_density * of[0][0] * of[1][0];
    }
    for (int i = 0; i < 3; i++)
        mean[i] = sums[i] / sums[3];
}

START_TEST(a_new_gpu_has_a_factor_of_its_own_that_moves_the_others)
{
    static const double factors[] = { 1.05, 1.3, 1.28, 1.4 };
    struct system other;
    double mean[3];
    make(factors, 4);
    other = made.system;
    snprintf(other.profile.name, sizeof other.profile.name, "b200-sxm");
    made.cases[0].system = &other;
    integrate_gpus(factors, 4, mean);
    learn_from(made.cases, made.predictions, 4, &prior_of_gpus, NULL, &made.lessons);
    const struct learned_stack *got =
        learned_find(&made.lessons.overlay, &made.system.stack, false);
    ck_assert_int_eq(made.lessons.count, 2);
    ck_assert_int_eq(got->num_gpus, 2);
    ck_assert_double_eq_tol(log(learned_ratio(got, "h100-80g-sxm")), mean[0], 1e-3);
    ck_assert_double_eq_tol(log(learned_ratio(got, "b200-sxm")), mean[1], 1e-3);
    ck_assert_double_eq_tol(log(learned_ratio(got, "gb200")), mean[2], 1e-3);
    ck_assert(mean[0] > mean[2] && mean[2] > mean[1] && mean[1] > 0.05);
    ck_assert_double_gt(got->factor.ratio_error, got->gpus[1].factor.ratio_error);
    learned_release(&made.lessons.overlay);
}
END_TEST

/* For rows on GPUs that were measured, the whole shift belongs to the stack. */
START_TEST(gpus_that_were_measured_share_one_factor)
{
    static const double factors[] = { 1.05, 1.3 };
    struct system other;
    make(factors, 2);
    made.system.profile.measured = true;
    other = made.system;
    snprintf(other.profile.name, sizeof other.profile.name, "a100-80g-sxm");
    made.cases[0].system = &other;
    learn_from(made.cases, made.predictions, 2, &prior_of_gpus, NULL, &made.lessons);
    const struct learned_stack *got =
        learned_find(&made.lessons.overlay, &made.system.stack, false);
    ck_assert_int_eq(got->num_gpus, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_double_eq(got->gpus[i].factor.time_ratio, got->factor.time_ratio);
        ck_assert_int_eq(got->gpus[i].num_ratios, 1);
    }
    learned_release(&made.lessons.overlay);
}
END_TEST

START_TEST(a_row_on_one_gpu_too_many_is_named)
{
    static const double factors[MOST_ROWS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    static struct system systems[MOST_ROWS];
    make(factors, MOST_ROWS);
    for (int i = 0; i < MOST_ROWS; i++) {
        systems[i] = made.system;
        snprintf(systems[i].profile.name, sizeof systems[i].profile.name, "gpu %d", i);
        made.cases[i].system = &systems[i];
    }
    ck_assert_int_eq(learn(MOST_ROWS, NULL)->num_gpus, MOST_LEARNED_GPUS);
    ck_assert_int_eq(made.lessons.used, MOST_LEARNED_GPUS);
    ck_assert_ptr_nonnull(strstr(made.lessons.reason[MOST_LEARNED_GPUS], "too many"));
    learned_release(&made.lessons.overlay);
}
END_TEST

START_TEST(versions_of_a_stack_are_learned_together)
{
    static const double factors[] = { 1.2, 1.2 };
    struct system version, stranger;
    make(factors, 2);
    version = stranger = made.system;
    snprintf(version.stack.name, sizeof version.stack.name, "megatron-core-2");
    snprintf(version.stack.family, sizeof version.stack.family, "megatron-core");
    snprintf(stranger.stack.name, sizeof stranger.stack.name, "megatron-core-3");
    made.cases[0].system = &version;
    const struct learned_stack *got = learn(2, NULL);
    ck_assert_int_eq(learned_runs(got), 2);
    ck_assert_ptr_eq(learned_find(&made.lessons.overlay, &version.stack, false), got);
    ck_assert_ptr_null(learned_find(&made.lessons.overlay, &stranger.stack, false));
    learned_apply(&made.lessons.overlay, &version);
    ck_assert_double_eq(version.stack.learned.time_ratio, got->factor.time_ratio);
    learned_release(&made.lessons.overlay);
}
END_TEST

/* Stacks that the fit gives the same constants are versions of one stack. */
START_TEST(stacks_that_are_fitted_together_are_versions_of_one)
{
    struct fit_table table;
    struct err err = { 0 };
    int pairs = 0;
    ck_assert_msg(fit_table_load(NULL, &table, &err), "%s", err.msg);
    for (int i = 0; i < table.num_jobs; i++)
        for (int k = 0; k < table.jobs[i].num_constants && !table.jobs[i].is_middle; k++) {
            const struct constant *of = &table.jobs[i].constants[k].constant;
            char file[128];
            struct stack first, other;
            if (!of->is_of_stack)
                continue;
            ck_assert(constant_file(of, 0, file, sizeof file));
            ck_assert_msg(stack_load(strchr(file, '/') + 1, &first, &err), "%s", err.msg);
            for (int n = 1; constant_file(of, n, file, sizeof file); n++, pairs++) {
                ck_assert_msg(stack_load(strchr(file, '/') + 1, &other, &err), "%s", err.msg);
                ck_assert_str_eq(stack_family(&other), stack_family(&first));
                stack_release(&other);
            }
            stack_release(&first);
        }
    ck_assert_int_ge(pairs, 4);
    fit_table_release(&table);
}
END_TEST

/* --- the overlay ----------------------------------------------------------------------------- */

START_TEST(an_overlay_narrows_unmeasured_intervals_and_applies_once)
{
    make((double[]){ 1.1, 1.1, 1.1 }, 3);
    const struct learned_stack *got = learn(3, NULL);
    struct system system = made.system;
    system.stack.errors.source = 0.32;
    system.profile.source_error = 0.335;
    system.stack.errors.of_experts = 0.32;
    for (int times = 0; times < 2; times++) {
        learned_apply(&made.lessons.overlay, &system);
        ck_assert_double_eq(system.stack.learned.time_ratio, got->factor.time_ratio);
        ck_assert_double_eq(system.stack.errors.source, got->factor.shift);
        ck_assert_double_eq(system.profile.source_error, got->factor.shift);
        ck_assert_double_eq(system.stack.errors.of_experts, 0.32);
        ck_assert_double_eq(system.stack.learned.expert_time_ratio, 0);
    }
    ck_assert_double_lt(got->factor.shift, 0.15);
    struct system seen = made.system;
    snprintf(seen.profile.name, sizeof seen.profile.name, "b200-sxm");
    seen.profile.source_error = 0.335;
    learned_apply(&made.lessons.overlay, &seen);
    ck_assert_double_eq(seen.stack.errors.source, 0);
    ck_assert_double_eq(seen.profile.source_error, 0.335);
    learned_release(&made.lessons.overlay);
}
END_TEST

/* A learned factor is applied only if it is likely to lower the error: a factor of 1.1 that is
 * known to 5 % is applied, a factor of 0.98 is not. A factor that is not applied widens the
 * interval instead. */
START_TEST(a_factor_is_applied_only_if_it_is_likely_better)
{
    struct learned_stack of = { .factor = { 1.02, 0.1, 0.09 },
                                .gpus = { { .profile = "had", .factor = { 1.1, 0.05, 0.08 } } },
                                .num_gpus = 1 };
    struct learned_factor *had = &of.gpus[0].factor;
    ck_assert_double_eq_tol(learned_chance(&of), normal_cdf(log(1.1) / 0.1), 1e-12);
    ck_assert_double_eq(learned_ratio(&of, "had"), 1.1);
    ck_assert_double_eq(learned_shift(&of, "had"), 0.08);
    ck_assert_double_eq(learned_ratio(&of, "other"), 1.02);
    ck_assert_double_eq(learned_shift(&of, "other"), 0.09);
    had->time_ratio = 0.98;
    ck_assert_double_lt(learned_chance(&of), SURE_FACTOR);
    ck_assert_double_eq(learned_ratio(&of, "had"), 1);
    ck_assert_double_eq(learned_ratio(&of, "other"), 1);
    ck_assert_double_eq_tol(learned_shift(&of, "had"), hypot(0.08, normal_90 * log(0.98)), 1e-12);
    had->ratio_error = 0;
    ck_assert_double_eq(learned_ratio(&of, "had"), 0.98);
}
END_TEST

/* A stack's prior is that of its tier (how much was measured of its software and GPU), scaled by
 * the ratio of the interval in the stack's file to the tier's interval. If the tier has no
 * interval, the prior is as wide as the interval in the file. */
START_TEST(the_prior_of_a_new_stack_is_its_intervals_shift)
{
    struct learn_prior with_width = prior;
    double ratio[2];
    with_width.width[TIER_NEW_GPU] = 0.4;
    for (int i = 0; i < 2; i++) {
        make((double[]){ 1.2 }, 1);
        made.system.stack.errors.source = 0.2 * normal_90;
        learn_from(made.cases, made.predictions, 1, i ? &with_width : &prior, NULL, &made.lessons);
        ck_assert_double_eq_tol(made.lessons.at[0].error_before,
                                i ? 0.1 * 0.2 * normal_90 / 0.4 : 0.2, 1e-12);
        ratio[i] = made.lessons.at[0].after->factor.time_ratio;
        learned_release(&made.lessons.overlay);
    }
    ck_assert_double_gt(ratio[0], ratio[1]);
    ck_assert_double_gt(ratio[1], 1);
}
END_TEST

/* Runs of models with experts change only the learned ratio and the shift (error common to all
 * rows) of models with experts, and no shift grows. */
START_TEST(an_overlay_of_experts_is_for_models_with_experts)
{
    struct learned_stack taught = { .stack = "made",
                                    .experts = true,
                                    .factor = { 1.5, 0.05, 0.2 },
                                    .gpus = { { .profile = "had", .factor = { 1.5, 0.05, 0.2 } } },
                                    .num_gpus = 1 };
    struct learned overlay = { .at = &taught, .count = 1 };
    struct system system = { .stack.errors = { .source = 0.3, .of_experts = 0.32 },
                             .profile.source_error = 0.4 };
    strcpy(system.stack.name, "made");
    learned_apply(&overlay, &system);
    ck_assert_double_eq(system.stack.learned.expert_time_ratio, 1.5);
    ck_assert_double_eq(system.stack.errors.of_experts, 0.2);
    ck_assert_double_eq(system.stack.learned.time_ratio, 0);
    ck_assert_double_eq(system.stack.errors.source, 0.3);
    ck_assert_double_eq(system.profile.source_error, 0.4);
    taught.factor.shift = 0.25;
    learned_apply(&overlay, &system);
    ck_assert_double_eq(system.stack.errors.of_experts, 0.2);
}
END_TEST

static bool read_text(const char *text, struct learned *out, struct err *err)
{
    char path[] = "/tmp/learned-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    bool ok = learned_load(path, out, err);
    unlink(path);
    return ok;
}

START_TEST(a_written_overlay_reads_back_equal)
{
    make((double[]){ 1.07, 1.3 }, 2);
    const struct learned_stack *got = learn(2, NULL);
    struct text text = { 0 };
    struct learned back;
    struct err err = { 0 };
    json_t *root = learned_write(&made.lessons.overlay);
    text_add_json(&text, root);
    json_decref(root);
    ck_assert_msg(read_text(text_get(&text), &back, &err), "%s: %s", err.where, err.msg);
    ck_assert_int_eq(back.count, 1);
    ck_assert_double_eq_tol(back.at[0].factor.time_ratio, got->factor.time_ratio, 1e-6);
    ck_assert_double_eq_tol(back.at[0].factor.ratio_error, got->factor.ratio_error, 1e-6);
    ck_assert_double_eq_tol(back.at[0].factor.shift, got->factor.shift, 1e-6);
    ck_assert_double_eq_tol(back.at[0].prior_error, got->prior_error, 1e-6);
    ck_assert_int_eq(back.at[0].gpus[0].num_ratios, 2);
    ck_assert_double_eq_tol(back.at[0].gpus[0].ratios[1], log(1.3), 1e-6);
    ck_assert_str_eq(back.at[0].gpus[0].profile, "h100-80g-sxm");
    text_release(&text);
    learned_release(&back);
    learned_release(&made.lessons.overlay);
}
END_TEST

#define FACTOR "\"time_ratio\": 1.1, \"ratio_error\": 0.1, \"shift\": 0.1"
#define GPU    FACTOR ", \"profile\": \"b\", \"prior_error\": 0, \"prior_freedom\": 3"
#define STACK(gpus)                                                             \
    "{ \"format\": 2, \"stacks\": [ { \"stack\": \"a\", \"prior_error\": 0.1, " \
    "\"prior_freedom\": 5, " FACTOR gpus " } ] }"
static const struct {
    const char *text, *where, *what;
} faulty[] = {
    { "[]", "", "" },
    { "{ \"format\": 1, \"stacks\": [] }", "format", "expected 2" },
    { "{ \"format\": 2, \"stacks\": 3 }", "stacks", "expected a list" },
    { STACK(""), "stacks[0].gpus", "" },
    { STACK(", \"gpus\": []"), "stacks[0].gpus", "1 to 16" },
    { STACK(", \"gpus\": [ 7 ]"), "stacks[0].gpus[0]", "" },
    { STACK(", \"gpus\": [ { " GPU " } ]"), "stacks[0].gpus[0].ratios", "" },
    { STACK(", \"gpus\": [ { " GPU ", \"ratios\": [] } ]"), "stacks[0].gpus[0].ratios", "1 to" },
    { STACK(", \"gpus\": [ { " GPU ", \"ratios\": [ 0 ] } ]"), "stacks[0].gpus[0].ratios",
      "0.01 to 100" },
    { STACK(", \"time_ration\": 1"), "stacks[0].time_ration", "time_ratio" },
    { "{ \"format\": 2, \"stacks\": [ { \"stack\": \"a\", \"time_ratio\": -1 } ] }",
      "stacks[0].time_ratio", "" },
};

START_TEST(a_faulty_overlay_is_refused_by_line_and_key)
{
    struct learned out;
    struct err err = { 0 };
    ck_assert(!read_text(faulty[_i].text, &out, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strstr(err.where, faulty[_i].where) && strstr(err.msg, faulty[_i].what), "%s: %s",
                  err.where, err.msg);
    learned_release(&out);
}
END_TEST

/* --- sources left out ------------------------------------------------------------------------ */

enum { NUM_DRAWS = 50, MOST_PICKS = 3, FEWEST_ROWS = 10 };

/* A source that was left out of the fit; its dense rows come first. */
struct judged {
    struct fit_table table;
    struct left_out left;
    struct shipped_runs runs;
    struct arena arena;
    struct run_case *cases;
    struct run_prediction *predictions;
    const struct left_out_row **rows;
    int count;
    struct learn_prior prior;
    double shift[NUM_TIERS];
    struct slice_trend slices;
};

static void judged_load(const char *name, struct judged *out)
{
    struct source_shifts shifts;
    struct err err = { 0 };
    *out = (struct judged){ 0 };
    ck_assert_msg(fit_table_load(NULL, &out->table, &err), "%s", err.msg);
    ck_assert_msg(leave_out(&out->table, name, 2, &out->left, &err), "%s", err.msg);
    ck_assert_msg(shipped_runs_predict(name, out->left.results, out->left.num_results, 2,
                                       &out->arena, &out->runs, &err),
                  "%s", err.msg);
    ck_assert_msg(source_shifts_load(&shifts, &err), "%s", err.msg);
    ck_assert_msg(learn_prior_find(&shifts, name, &out->prior, &err), "%s", err.msg);
    for (int tier = 0; tier < NUM_TIERS; tier++)
        out->shift[tier] = shift_width(&shifts, (enum tier)tier, name);
    out->slices = slice_trend_find(&shifts, name);
    size_t room = (size_t)out->left.num_rows;
    out->cases = ARENA_ARRAY(&out->arena, struct run_case, room);
    out->predictions = ARENA_ARRAY(&out->arena, struct run_prediction, room);
    out->rows = ARENA_ARRAY(&out->arena, const struct left_out_row *, room);
    for (int i = 0; i < out->runs.scores.num_scored; i++) {
        int k = out->runs.scores.worst[i];
        if (!out->left.rows[i].is_dense)
            continue;
        /* as if nothing had been fitted on this source */
        struct system *system = out->runs.cases[k].system;
        system->stack.errors.source = out->shift[out->left.rows[i].tier];
        system->stack.num_fitted = 0;
        system->profile.measured = out->left.rows[i].tier != TIER_NEW_GPU;
        out->cases[out->count] = out->runs.cases[k];
        out->predictions[out->count] = out->runs.predictions[k];
        out->rows[out->count++] = &out->left.rows[i];
    }
    source_shifts_release(&shifts);
}

static void judged_release(struct judged *judged)
{
    shipped_runs_release(&judged->runs);
    left_out_release(&judged->left);
    fit_table_release(&judged->table);
    arena_release(&judged->arena);
}

struct mark {
    double median, before, covered;
};

/* Computes the errors of all rows after the first k, with the constants learned from the first
 * k. */
static struct mark mark_others(const struct judged *of, int k, double *room)
{
    struct lessons lessons;
    struct mark mark = { 0 };
    int n = of->count - k;
    int covered = 0;
    learn_from(of->cases, of->predictions, k, &of->prior, NULL, &lessons);
    for (int i = 0; i < n; i++) {
        const struct learned_stack *learned =
            learned_find(&lessons.overlay, &of->cases[k + i].system->stack, false);
        const struct left_out_row *row = of->rows[k + i];
        const char *profile = of->cases[k + i].system->profile.name;
        double shift = of->shift[row->tier];
        if (learned && (row->tier != TIER_NEW_GPU || learned_gpu_find(learned, profile)))
            shift = fmin(shift, learned_shift(learned, profile));
        room[i] = fabs(row->error + (learned ? log(learned_ratio(learned, profile)) : 0));
        covered += room[i] <=
                   hypot(hypot(row->width, slice_width(&of->slices, row->tier, row->slice)), shift);
    }
    numbers_sort(room, (size_t)n);
    mark.median = sorted_quantile(room, n, 0.5);
    mark.covered = (double)covered / n;
    for (int i = 0; i < n; i++)
        room[i] = fabs(of->rows[k + i]->error);
    numbers_sort(room, (size_t)n);
    mark.before = sorted_quantile(room, n, 0.5);
    learned_release(&lessons.overlay);
    return mark;
}

static void swap_rows(struct judged *of, int i, int k)
{
    struct run_case case_i = of->cases[i];
    struct run_prediction prediction_i = of->predictions[i];
    const struct left_out_row *row_i = of->rows[i];
    of->cases[i] = of->cases[k];
    of->predictions[i] = of->predictions[k];
    of->rows[i] = of->rows[k];
    of->cases[k] = case_i;
    of->predictions[k] = prediction_i;
    of->rows[k] = row_i;
}

struct tally {
    double median[MOST_PICKS + 1], covered[MOST_PICKS + 1];
    int worse[MOST_PICKS + 1];
};

static void tally_source(const char *name, struct tally *out)
{
    struct judged of;
    judged_load(name, &of);
    ck_assert_int_ge(of.count, FEWEST_ROWS);
    double *room = ARENA_ARRAY(&of.arena, double, (size_t)of.count);
    struct random rng = random_new(1, 0);
    for (int draw = 0; draw < NUM_DRAWS; draw++) {
        for (int i = 0; i < MOST_PICKS; i++)
            swap_rows(&of, i, i + random_below(&rng, of.count - i));
        for (int k = 0; k <= MOST_PICKS; k++) {
            struct mark mark = mark_others(&of, k, room);
            out->median[k] += mark.median / NUM_DRAWS;
            out->covered[k] += mark.covered / NUM_DRAWS;
            out->worse[k] += mark.median > mark.before;
        }
    }
    judged_release(&of);
}

/* Tests the source whose prediction takes the least time; `make campaign` tests all sources with
 * ten rows or more. The limits are the errors that remain, rounded up. */
START_TEST(a_few_rows_of_a_source_lower_the_error_of_its_other_rows)
{
    static const char *const names[] = { "torchao_float8", "internevo",      "dgxc_gb200",
                                         "megatron2021",   "zerobubble2023", "llmfoundry",
                                         "bloom_prequel",  "vtrain_single",  "dgxc_h100" };
    static const double most[] = { 0.056, 0.05, 0.045, 0.04 };
    /* The limits of torchao are higher, because its rows ran on three GPUs whose median errors are
     * -7, -18 and -25 %. If all GPUs of a stack shared one ratio, and versions of a stack did not
     * learn from each other, errors of 12, 10.7 and 9.5 % would remain. */
    static const double most_torchao[] = { 0.13, 0.095, 0.075, 0.055 };
    struct tally sum = { 0 };
    int sources = is_campaign() ? (int)LENGTH(names) : 1;
    for (int i = 0; i < sources; i++) {
        struct tally tally = { 0 };
        tally_source(names[i], &tally);
        if (is_campaign())
            printf("%-16s", names[i]);
        for (int k = 0; k <= MOST_PICKS; k++) {
            sum.median[k] += tally.median[k] / sources;
            sum.covered[k] += tally.covered[k] / sources;
            sum.worse[k] += tally.worse[k];
            if (is_campaign())
                printf("  k %d: %4.1f %% (%3.0f %% covered)", k, 100 * tally.median[k],
                       100 * tally.covered[k]);
        }
        if (is_campaign())
            printf("\n");
    }
    for (int k = 0; k <= MOST_PICKS; k++) {
        double worse = (double)sum.worse[k] / (sources * NUM_DRAWS);
        if (is_campaign())
            printf("after %d rows: median %.2f %%, covered %.0f %%, worse than before %.0f %%\n", k,
                   100 * sum.median[k], 100 * sum.covered[k], 100 * worse);
        ck_assert_double_le(sum.median[k], is_campaign() ? most[k] : most_torchao[k]);
        ck_assert_double_ge(sum.covered[k], is_campaign() ? 0.85 : 0.75);
        ck_assert(sum.covered[k] <= 0.95 || k == 0 || !is_campaign());
        ck_assert_double_le(worse, is_campaign() ? 0.2 : 0.15);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("calibration/learn");
    TCase *laws = tcase_create("laws");
    tcase_add_test(laws, a_ratio_is_shrunk_by_the_variance_between_sources);
    tcase_add_test(laws, a_row_far_from_the_others_hardly_counts);
    tcase_add_test(laws, learning_rows_in_turn_equals_learning_them_at_once);
    tcase_add_test(laws, rows_that_cannot_be_learned_are_named_with_the_reason);
    tcase_add_test(laws, without_rows_nothing_is_learned);
    tcase_add_test(laws, an_overlay_narrows_unmeasured_intervals_and_applies_once);
    tcase_add_test(laws, a_factor_is_applied_only_if_it_is_likely_better);
    tcase_add_test(laws, the_prior_of_a_new_stack_is_its_intervals_shift);
    tcase_add_test(laws, a_written_overlay_reads_back_equal);
    tcase_add_test(laws, a_new_gpu_has_a_factor_of_its_own_that_moves_the_others);
    tcase_add_test(laws, gpus_that_were_measured_share_one_factor);
    tcase_add_test(laws, a_row_on_one_gpu_too_many_is_named);
    tcase_add_test(laws, versions_of_a_stack_are_learned_together);
    tcase_add_test(laws, stacks_that_are_fitted_together_are_versions_of_one);
    tcase_add_test(laws, an_overlay_of_experts_is_for_models_with_experts);
    tcase_add_loop_test(laws, a_faulty_overlay_is_refused_by_line_and_key, 0, LENGTH(faulty));
    suite_add_tcase(s, laws);
    TCase *sources = tcase_create("sources");
    tcase_set_timeout(sources, 300);
    tcase_add_test(sources, a_few_rows_of_a_source_lower_the_error_of_its_other_rows);
    suite_add_tcase(s, sources);
    return s;
}

TEST_MAIN(suite)
