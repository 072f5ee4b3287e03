/* not under asan: the test only checks numbers of pure functions. */
#include "base/file.h"
#include "sim/cost/compute.h"
#include "sim/cost/datafile.h"
#include "sim/plan/local.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 32 };

static struct profile profiles[MAX_FILES];
static int num_profiles;
static struct gpu gpus[MAX_FILES];
static int num_gpus;

static void load_all(void)
{
    char folder[PATH_MAX];
    size_t count;
    struct err err = { 0 };
    ck_assert(file_data_folder(profile_files.folder, folder, sizeof folder));
    char **names = file_list_json(folder, &count);
    ck_assert_uint_lt(count, MAX_FILES);
    for (size_t i = 0; i < count; i++) {
        check_ok(profile_load(names[i], &profiles[num_profiles++], &err), &err);
        free(names[i]);
    }
    free(names);
    ck_assert(file_data_folder(gpu_files.folder, folder, sizeof folder));
    names = file_list_json(folder, &count);
    ck_assert_uint_lt(count, MAX_FILES);
    for (size_t i = 0; i < count; i++) {
        check_ok(gpu_load(names[i], &gpus[num_gpus++], &err), &err);
        free(names[i]);
    }
    free(names);
}

static void release_all(void)
{
    for (int i = 0; i < num_profiles; i++)
        profile_release(&profiles[i]);
    num_profiles = num_gpus = 0;
}

/* A GPU, its profile, and a number type in which its tensor cores multiply. */
struct machine {
    struct gpu gpu;
    struct profile profile;
    enum dtype dtype;
};

/* Calls `claim`, which checks a law, for every pair of GPU and type. Measured products are removed
 * from the profiles, because they are valid for one GPU only. */
static void each_machine(void (*claim)(const struct machine *))
{
    int pairs = 0;
    for (int p = 0; p < num_profiles; p++)
        for (int g = 0; g < num_gpus; g++)
            for (int dtype = 0; dtype < NUM_DTYPES; dtype++) {
                struct machine machine = { gpus[g], profiles[p], (enum dtype)dtype };
                if (strcmp(machine.profile.gpu_name, machine.gpu.name) != 0)
                    machine.profile.num_gemm_points = 0;
                if (machine.gpu.peak_flops_per_s[dtype] > 0 && dtype != DTYPE_FP4 &&
                    !is_spared(pairs++, 4))
                    claim(&machine);
            }
}

struct shape {
    double m, n, k;
};

static double product_bytes(const struct shape *s)
{
    return 2 * (s->m * s->k + s->k * s->n + s->m * s->n);
}

static double product_s(const struct machine *machine, struct shape s)
{
    return gemm_s(&machine->gpu, &machine->profile, machine->dtype, s.m, s.n, s.k,
                  product_bytes(&s));
}

/* These sizes are aligned to 16 bytes in every type; unaligned rows have a separate law. */
static const double sizes[] = { 16, 48, 128, 304, 1024, 3072, 12288, 100000 };
enum { NUM_SIZES = LENGTH(sizes) };

static void each_shape(const struct machine *machine,
                       void (*claim)(const struct machine *, struct shape))
{
    for (int m = 0; m < NUM_SIZES; m++)
        for (int n = 0; n < NUM_SIZES; n++)
            for (int k = 0; k < NUM_SIZES; k++)
                claim(machine, (struct shape){ sizes[m], sizes[n], sizes[k] });
}

static void check_never_faster(const struct machine *machine, struct shape s, struct shape larger,
                               double slack)
{
    double time_s = product_s(machine, s);
    double larger_s = product_s(machine, larger);
    if (larger_s < time_s * (1 - slack)) /* one ck_assert per shape would be slow */
        ck_abort_msg("%s on %s: %g x %g x %g takes %g s, but %g x %g x %g takes %g s",
                     machine->gpu.name, machine->profile.name, s.m, s.n, s.k, time_s, larger.m,
                     larger.n, larger.k, larger_s);
}

static void check_doubling(const struct machine *machine, struct shape s)
{
    double slack = 0;
    check_never_faster(machine, s, (struct shape){ 2 * s.m, s.n, s.k }, slack);
    check_never_faster(machine, s, (struct shape){ s.m, 2 * s.n, s.k }, slack);
    check_never_faster(machine, s, (struct shape){ s.m, s.n, 2 * s.k }, slack);
}

static void check_all_doublings(const struct machine *machine)
{
    each_shape(machine, check_doubling);
}

START_TEST(doubling_a_dimension_never_lowers_the_time)
{
    each_machine(check_all_doublings);
}
END_TEST

static void check_roofline_of_shape(const struct machine *machine, struct shape s)
{
    double time_s = product_s(machine, s);
    double flops_s = 2 * s.m * s.n * s.k / machine->gpu.peak_flops_per_s[machine->dtype];
    double bytes_s = product_bytes(&s) / machine->gpu.memory_bytes_per_s;
    ck_assert_msg(time_s >= flops_s && time_s >= bytes_s,
                  "%s on %s: %g x %g x %g takes %g s; at the peak rate it takes %g s, its memory "
                  "traffic %g s",
                  machine->gpu.name, machine->profile.name, s.m, s.n, s.k, time_s, flops_s,
                  bytes_s);
}

static void check_roofline(const struct machine *machine)
{
    each_shape(machine, check_roofline_of_shape);
}

START_TEST(no_product_is_faster_than_the_roofline)
{
    each_machine(check_roofline);
}
END_TEST

/* Checks the bounds of a product's time over a range of the profile's constants. The time is
 * between the lower and the upper bound. If the range is a single point, the lower bound equals the
 * time. The second width is odd, so its rows are not aligned. */
static void check_range_of_shape(const struct machine *machine, struct shape s)
{
    struct machine own = *machine, fast, slow;
    own.profile.num_gemm_points = 0; /* as struct product_range requires */
    own.profile.gemm_unaligned_efficiency = 0.25;
    fast = slow = own;
    fast.profile.gemm_efficiency *= 1.2;
    slow.profile.gemm_efficiency /= 1.2;
    slow.profile.gemm_half_k = own.profile.gemm_half_k * 1.5 + 10;
    fast.profile.gemm_half_k /= 1.5;
    slow.profile.memory_efficiency /= 1.3;
    struct product_range point = { &own.profile, &own.profile, true };
    struct product_range floor = { &fast.profile, &slow.profile, true };
    struct product_range ceiling = { &fast.profile, &slow.profile, false };
    struct machine ranged = own;
    for (int odd = 0; odd < 2; odd++) {
        s.n += odd;
        double time_s = product_s(&own, s);
        ranged.profile.range = &point;
        ck_assert_double_eq_tol(product_s(&ranged, s), time_s, 1e-12 * time_s);
        ranged.profile.range = &floor;
        ck_assert_double_le(product_s(&ranged, s), time_s * (1 + 1e-12));
        ranged.profile.range = &ceiling;
        ck_assert_double_ge(product_s(&ranged, s), time_s * (1 - 1e-12));
    }
}

static void check_range(const struct machine *machine)
{
    static int machines;
    if (machines++ % 4 == 0)
        each_shape(machine, check_range_of_shape);
}

START_TEST(time_bounds_of_a_product_hold_within_the_range)
{
    each_machine(check_range);
}
END_TEST

static void check_double_clock_of_shape(const struct machine *machine, struct shape s)
{
    static struct gemm_point points[MAX_GEMM_POINTS];
    struct machine fast = *machine;
    fast.gpu.memory_bytes_per_s *= 2;
    for (int dtype = 0; dtype < NUM_DTYPES; dtype++)
        fast.gpu.peak_flops_per_s[dtype] *= 2;
    fast.profile.gemm_points = points;
    for (int i = 0; i < fast.profile.num_gemm_points; i++) {
        points[i] = machine->profile.gemm_points[i];
        points[i].flops_per_s *= 2;
    }
    double kernel_s = machine->profile.kernel_s;
    double time_s = product_s(machine, s) - kernel_s;
    ck_assert_double_eq_tol(product_s(&fast, s) - kernel_s, time_s / 2, 1e-9 * (time_s + kernel_s));
}

static void check_double_clock(const struct machine *machine)
{
    each_shape(machine, check_double_clock_of_shape);
}

START_TEST(doubling_clock_and_bandwidth_halves_the_time_except_kernel_starts)
{
    each_machine(check_double_clock);
}
END_TEST

static void check_traffic(const struct machine *machine)
{
    const struct gpu *gpu = &machine->gpu;
    const struct profile *profile = &machine->profile;
    double before_s = traffic_s(gpu, profile, 0, 1);
    ck_assert_double_eq(before_s, profile->kernel_s);
    for (double bytes = 1; bytes < 1e18; bytes *= 1.5) {
        double time_s = traffic_s(gpu, profile, bytes, 1);
        ck_assert_double_ge(time_s, before_s);
        ck_assert_double_ge(time_s, bytes / gpu->memory_bytes_per_s);
        ck_assert_double_ge(traffic_s(gpu, profile, bytes, 2), time_s);
        before_s = time_s;
    }
}

START_TEST(traffic_time_increases_with_bytes_and_respects_bandwidth)
{
    each_machine(check_traffic);
}
END_TEST

static void check_ops(const struct machine *machine, enum attention_kernel attention,
                      const struct ops *ops)
{
    for (int i = 0; i < ops->count; i++) {
        const struct op *op = &ops->at[i];
        double time_s = op_s(&machine->gpu, &machine->profile, attention, op);
        if (op_is_collective(op->kind)) {
            ck_assert_double_eq(time_s, 0);
            continue;
        }
        ck_assert_double_ge(time_s, op->flops / machine->gpu.peak_flops_per_s[op->dtype]);
        ck_assert_double_ge(time_s, op->bytes / machine->gpu.memory_bytes_per_s);
        ck_assert_double_ge(time_s, machine->profile.kernel_s);
    }
}

/* A block of GPT-3 175B on 8 tensor ranks. */
static void check_layer(const struct machine *machine)
{
    struct model model;
    struct err err = { 0 };
    check_ok(model_load("gpt3-175b", &model, &err), &err);
    struct plan plan = plan_default();
    plan.tp = 8;
    struct arena arena = { 0 };
    for (int attention = 0; attention < NUM_ATTENTION_KERNELS; attention++) {
        if (attention != ATTENTION_UNFUSED &&
            machine->profile.attention[attention].forward_efficiency <= 0)
            continue;
        bool is_fp8 = machine->dtype == DTYPE_FP8;
        struct layer_options options = { .flash_attention = attention != ATTENTION_UNFUSED,
                                         .dtype = is_fp8 ? DTYPE_BF16 : machine->dtype,
                                         .recipe = is_fp8 ? precision_recipe(PRECISION_FP8_CURRENT)
                                                          : NULL,
                                         .copies = 2,
                                         .gradient_bytes = 4 };
        struct local_ops ops =
            local_layer(rank_share_of(&plan), &model, model.seq, &options, false, &arena);
        check_ops(machine, (enum attention_kernel)attention, &ops.forward);
        check_ops(machine, (enum attention_kernel)attention, &ops.backward);
    }
    arena_release(&arena);
}

START_TEST(no_op_of_a_layer_is_faster_than_bandwidth_or_a_kernel_start)
{
    each_machine(check_layer);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 60);
    tcase_add_unchecked_fixture(tc, load_all, release_all);
    tcase_add_test(tc, doubling_a_dimension_never_lowers_the_time);
    tcase_add_test(tc, no_product_is_faster_than_the_roofline);
    tcase_add_test(tc, time_bounds_of_a_product_hold_within_the_range);
    tcase_add_test(tc, doubling_clock_and_bandwidth_halves_the_time_except_kernel_starts);
    tcase_add_test(tc, traffic_time_increases_with_bytes_and_respects_bandwidth);
    tcase_add_test(tc, no_op_of_a_layer_is_faster_than_bandwidth_or_a_kernel_start);
    Suite *s = suite_create("sim/cost/compute: laws");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
