/* Reads and writes profiles, which hold a GPU's measured constants. */
#include "base/length.h"
#include "sim/cost/hardware.h"

#include "base/arena.h"
#include "sim/cost/datafile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(type, member) .offset = offsetof(struct type, member)
#define TEXT(member) \
    .kind = FIELD_TEXT, AT(profile, member), .size = sizeof((struct profile *)0)->member
#define NUMBER(type, member) .kind = FIELD_NUMBER, AT(type, member)
#define QUANTITY(unit, member) \
    .kind = FIELD_QUANTITY, .quantity = QUANTITY_##unit, AT(profile, member)
#define SHARE .min = 1e-3, .max = 1.5

// clang-format off
const struct field profile_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of the file's form: 1." },
    { .name = "name", TEXT(name), .doc = "Name of the file." },
    { .name = "gpu", TEXT(gpu_name), .doc = "GPU that the profile describes." },
    { .name = "source", TEXT(source), .doc = "Where the constants come from." },
    { .name = "sources", .kind = FIELD_OTHER, .fallback = "", .doc = "Sources of single keys." },
    { .name = "measured", .kind = FIELD_BOOL, AT(profile, measured), .fallback = "false",
      .doc = "Whether any constant was fitted to runs of this GPU." },
    { .name = "provenance", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "Origin of each group of constants: fitted here, sibling of X, or datasheet. Absent: "
             "fitted here if `measured` is true, else datasheet." },
    { .name = "disturbed", .kind = FIELD_OTHER, .fallback = "none",
      .doc = "Written by `calibrate` if other programs took more than a fifth of its cores, or if "
             "its held-out steps lie outside the interval; intervals are then at least as wide as "
             "the errors of these steps." },
    { .name = "gemm_efficiency", NUMBER(profile, gemm_efficiency), SHARE,
      .doc = "Share of the peak that large matrix products reach." },
    { .name = "sustained", NUMBER(profile, sustained), SHARE, .fallback = "1",
      .doc = "Rate of matrix products in long runs, which the power limit slows, relative to short runs." },
    { .name = "power", .kind = FIELD_QUANTITY, .quantity = QUANTITY_WATTS,
      .offset = offsetof(struct profile, power_w), .min = 0, .max = 1e6, .fallback = "0 W",
      .doc = "Power limit at which the rates were measured; GPUs with a lower limit compute more "
             "slowly. 0 W: not stated." },
    { .name = "gemm_half_k", NUMBER(profile, gemm_half_k), .min = 0, .max = 1e6,
      .doc = "Inner dimension at which products reach half of the share gemm_efficiency of the peak." },
    { .name = "fp8_product_efficiency", NUMBER(profile, narrow[DTYPE_FP8].efficiency), SHARE,
      .fallback = "0.9", .doc = "Share of the fp8 peak that large fp8 products reach, divided by gemm_efficiency." },
    { .name = "fp8_half_k", NUMBER(profile, narrow[DTYPE_FP8].half_k), .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Inner dimension at which fp8 products reach half of their rate; 0: twice gemm_half_k." },
    { .name = "fp4_product_efficiency", NUMBER(profile, narrow[DTYPE_FP4].efficiency), .min = 0, .max = 1.5,
      .fallback = "0",
      .doc = "Share of the fp4 peak that large fp4 products reach, divided by gemm_efficiency; 0: never measured, so only the memory of plans in fp4 is predicted." },
    { .name = "fp4_half_k", NUMBER(profile, narrow[DTYPE_FP4].half_k), .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Inner dimension at which fp4 products reach half of their rate; 0: four times "
             "gemm_half_k." },
    { .name = "gemm_unaligned_efficiency", NUMBER(profile, gemm_unaligned_efficiency), SHARE,
      .fallback = "0.4", .doc = "Share of a product's rate that is reached if a dimension is not a multiple of 16 bytes." },
    { .name = "gemm_memory_efficiency", NUMBER(profile, gemm_memory_efficiency), SHARE,
      .fallback = "0.9", .doc = "Share of the memory bandwidth that products with one small "
                                "dimension reach." },
    { .name = "gemm_sum_exposed", NUMBER(profile, gemm_sum_exposed), .min = 0, .max = 1,
      .fallback = "0",
      .doc = "For a product that is added to an existing sum: share of the sum's memory traffic "
             "that does not overlap with the multiplications." },
    { .name = "batched_gemm_efficiency", NUMBER(profile, batched_gemm_efficiency), SHARE,
      .fallback = "0.35", .doc = "Share of the peak that the two products of unfused attention "
                                 "reach." },
    { .name = "batched_gemm_half_dim", NUMBER(profile, batched_gemm_half_dim), .min = 0,
      .max = 1e6, .fallback = "0",
      .doc = "Head dimension at which the two products of unfused attention reach half of their share of the peak." },
    { .name = "gemm_tiles", .kind = FIELD_OTHER, .fallback = "[[256, 128, 1]]",
      .doc = "Tiles of matrix products: [rows, columns, speed relative to the best]." },
    { .name = "gemm_points", .kind = FIELD_OTHER, .fallback = "[]",
      .doc = "Measured products: [m, n, k, FLOP/s as text]." },
    { .name = "attention", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "Rates of the kernels flash1, flash2 and flash3; an absent kernel has the rates of the next one." },
    { .name = "unaligned_efficiency", NUMBER(profile, unaligned_efficiency), SHARE,
      .fallback = "0.1",
      .doc = "Share of their rate that attention kernels reach if a head's row is not a multiple of 16 bytes." },
    { .name = "memory_efficiency", NUMBER(profile, memory_efficiency), SHARE,
      .doc = "Share of the memory bandwidth that large pointwise kernels reach." },
    { .name = "kernel", QUANTITY(SECONDS, kernel_s), .min = 0, .max = 1, .fallback = "2 us",
      .doc = "Shortest time from the start of one queued kernel to the start of the next." },
    { .name = "host_copy_efficiency", NUMBER(profile, host_copy_efficiency), SHARE,
      .fallback = "0.88", .doc = "Share of the link to the host that copies reach in each "
                                 "direction, with both directions in use. Default: 55.4 of 63 GB/s "
                                 "over PCIe 5.0 (ml-engineering, compute/accelerator)." },
    { .name = "intra_bandwidth_factor", NUMBER(profile, intra_bandwidth_factor), .min = 1e-2,
      .max = 1e2, .fallback = "1", .doc = "Ratio of measured bandwidth to that of NCCL's model, "
                                          "within a node." },
    { .name = "intra_latency_factor", NUMBER(profile, intra_latency_factor), .min = 0, .max = 1e2,
      .fallback = "1", .doc = "Ratio of measured latency to that of NCCL's model, within a node." },
    { .name = "inter_bandwidth_factor", NUMBER(profile, inter_bandwidth_factor), .min = 1e-2,
      .max = 1e2, .fallback = "1", .doc = "Ratio of measured bandwidth to that of NCCL's model, "
                                          "between nodes." },
    { .name = "expert_wait", QUANTITY(SECONDS, expert_wait_s), .min = 0, .max = 1, .fallback = "0 s",
      .doc = "Time of an all-to-all of experts' rows between nodes in addition to its messages, "
             "because ranks are late and their messages differ in size." },
    { .name = "inter_latency_factor", NUMBER(profile, inter_latency_factor), .min = 0, .max = 1e2,
      .fallback = "1", .doc = "Ratio of measured latency to that of NCCL's model, between nodes." },
    { .name = "collectives", .kind = FIELD_OTHER, .fallback = "[]",
      .doc = "Measured collectives, which replace the model within the range of their sizes." },
    { .name = "kernels", .kind = FIELD_OTHER, .fallback = "[]",
      .doc = "Measured ops, which replace the formulas, for example those of a host." },
    { .name = "overlap_compute_slowdown", NUMBER(profile, overlap_compute_slowdown), .min = 1,
      .max = 10, .fallback = "1.15", .doc = "Factor by which compute slows while a collective runs." },
    { .name = "overlap_comm_slowdown", NUMBER(profile, overlap_comm_slowdown), .min = 1, .max = 10,
      .fallback = "1.1", .doc = "Factor by which a collective slows while compute runs." },
    { .name = "chip_spread", NUMBER(profile, chip_spread), .min = 0, .max = 1, .fallback = "0.01",
      .doc = "Standard deviation of sustained speed between chips." },
    { .name = "pass_spread", NUMBER(profile, pass_spread), .min = 0, .max = 1, .fallback = "0.005",
      .doc = "Relative standard deviation of one chip's passes around their mean. Used for --draws "
             "and for exchanges that do not wait for all ranks. The default is an assumption; "
             "repeated whole steps on 384 GPUs differ by 0.016 to 0.032 (bloom_prequel)." },
    { .name = "drift", QUANTITY(SECONDS, drift_s), .min = 0, .max = 1,
      .fallback = "0 s",
      .doc = "Growth of the variance of a rank's compute time per second of compute; it makes "
             "ranks of a tensor or context group wait for each other. Measured collectives of GPUs "
             "include this wait." },
    { .name = "error_log", NUMBER(profile, error_log), .min = 0, .max = 10, .fallback = "0.15",
      .doc = "Half width of the 90 % interval of log time, for runs outside the fit." },
    { .name = "source_error", NUMBER(profile, source_error), .min = 0, .max = 10, .fallback = "0",
      .doc = "For a GPU that was never measured: half width, in log time, of the error that all of "
             "its runs have in common, written by `fit`." },
    { .name = "fitted_on", .kind = FIELD_OTHER, .fallback = "[]",
      .doc = "Ids or sources of the measured rows on which constants were fitted." },
    { .name = "residuals", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "For each job of `fit`: errors on the rows of fitted_on, standard errors, correlations." },
};
// clang-format on
const size_t num_profile_fields = LENGTH(profile_fields);

// clang-format off
const struct field attention_fields[] = {
    { .name = "forward_efficiency", NUMBER(attention_rate, forward_efficiency), SHARE,
      .doc = "Share of the peak that the kernel reaches on long sequences; only the FLOPs of the causal half count." },
    { .name = "backward_efficiency", NUMBER(attention_rate, backward_efficiency), SHARE,
      .doc = "The same for the backward." },
    { .name = "half_seq", NUMBER(attention_rate, half_seq), .min = 0, .max = 1e6,
      .doc = "Sequence length at which half of these shares is reached." },
};
// clang-format on
const size_t num_attention_fields = LENGTH(attention_fields);

// clang-format off
const struct field disturbance_fields[] = {
    { .name = "core_share", NUMBER(disturbance, core_share), .min = 0, .max = 1,
      .doc = "Smallest share of a core that a rank got while ops and steps were timed." },
    { .name = "held_out_error", NUMBER(disturbance, held_out_error), .min = 0, .max = 10,
      .fallback = "0", .doc = "Largest |log(predicted / measured)| of the held-out steps." },
    { .name = "waited", .kind = FIELD_QUANTITY, .quantity = QUANTITY_SECONDS,
      AT(disturbance, waited_s), .min = 0, .max = 1e6, .fallback = "0 s",
      .doc = "Time that the calibration waited for an idle machine before it began." },
};
// clang-format on
const size_t num_disturbance_fields = LENGTH(disturbance_fields);

const struct datafile_kind profile_files = { "profile", "calibration/profiles",
                                             "calibration/hardware" };

static bool is_present(const struct attention_rate *rate)
{
    return rate->forward_efficiency > 0;
}

/* A kernel without a rate gets that of the next older kernel that has one, else that of the next
 * newer one. */
static void fill_absent(struct attention_rate rates[NUM_ATTENTION_KERNELS])
{
    for (int i = ATTENTION_FLASH1 + 1; i < NUM_ATTENTION_KERNELS; i++)
        if (!is_present(&rates[i]))
            rates[i] = rates[i - 1];
    for (int i = NUM_ATTENTION_KERNELS - 2; i >= ATTENTION_FLASH1; i--)
        if (!is_present(&rates[i]))
            rates[i] = rates[i + 1];
}

static bool read_attention(const json_t *attention, struct profile *out, struct err *err)
{
    const char *const *names = &attention_names[ATTENTION_FLASH1];
    if (!attention)
        return true;
    if (!json_is_object(attention))
        return err_set(err, ERR_INPUT, "attention", "expected an object of rates by kernel");
    bool ok = json_only_keys(attention, names, NUM_ATTENTION_KERNELS - ATTENTION_FLASH1, err);
    for (int i = ATTENTION_FLASH1; i < NUM_ATTENTION_KERNELS && ok; i++) {
        const json_t *rate = json_object_get(attention, attention_names[i]);
        ok = !rate ||
             fields_read(attention_fields, num_attention_fields, rate, &out->attention[i], err);
        if (!ok)
            err_within(err, attention_names[i]);
    }
    if (!ok)
        err_within(err, "attention");
    fill_absent(out->attention);
    return ok;
}

/* Element `i` of a row; 0 if it is no positive number. */
static double positive(const json_t *row, size_t i)
{
    double number = json_number_value(json_array_get(row, i));
    return number > 0 && isfinite(number) ? number : 0;
}

static bool read_tile(const json_t *row, struct gemm_tile *out, struct err *err)
{
    double m = positive(row, 0), n = positive(row, 1);
    out->efficiency = positive(row, 2);
    bool is_whole = m == floor(m) && n == floor(n) && m >= 1 && n >= 1 && m <= 4096 && n <= 4096;
    if (json_array_size(row) != 3 || !is_whole || out->efficiency <= 0 || out->efficiency > 1)
        return err_set(
            err, ERR_INPUT, "",
            "expected [rows, columns, relative speed above 0 to 1], like [128, 64, 0.9]");
    out->m = (int)m;
    out->n = (int)n;
    return true;
}

static bool read_point(const json_t *row, struct gemm_point *out, struct err *err)
{
    const char *rate = json_string_value(json_array_get(row, 3));
    *out = (struct gemm_point){ positive(row, 0), positive(row, 1), positive(row, 2), 0 };
    if (json_array_size(row) != 4 || out->m <= 0 || out->n <= 0 || out->k <= 0 || !rate)
        return err_set(err, ERR_INPUT, "",
                       "expected [m, n, k, rate], like [4096, 1536, 5120, \"245.8 TFLOP/s\"]");
    if (!units_parse(rate, QUANTITY_FLOPS_PER_S, &out->flops_per_s, err))
        return err_within(err, "[3]");
    return out->flops_per_s > 0 ||
           err_set(err, ERR_INPUT, "[3]", "expected a rate above 0; found \"%.40s\"", rate);
}

static bool read_tiles(const json_t *rows, struct profile *out, struct err *err)
{
    size_t count = json_array_size(rows);
    if (!rows) {
        out->gemm_tiles[0] = (struct gemm_tile){ 256, 128, 1 };
        out->num_gemm_tiles = 1;
        return true;
    }
    if (count < 1 || count > MAX_GEMM_TILES)
        return err_set(err, ERR_INPUT, "gemm_tiles", "expected a list of 1 to %d tiles; found %zu",
                       MAX_GEMM_TILES, count);
    for (size_t i = 0; i < count; i++)
        if (!read_tile(json_array_get(rows, i), &out->gemm_tiles[i], err))
            return err_within_item(err, "gemm_tiles", i);
    out->num_gemm_tiles = (int)count;
    return true;
}

static bool read_points(const json_t *rows, struct profile *out, struct err *err)
{
    size_t count = json_array_size(rows);
    if ((rows && !json_is_array(rows)) || count > MAX_GEMM_POINTS)
        return err_set(err, ERR_INPUT, "gemm_points", "expected a list of at most %d points",
                       MAX_GEMM_POINTS);
    if (count == 0)
        return true;
    out->gemm_points = arena_grow(NULL, count * sizeof *out->gemm_points);
    for (size_t i = 0; i < count; i++)
        if (!read_point(json_array_get(rows, i), &out->gemm_points[i], err))
            return err_within_item(err, "gemm_points", i);
    out->num_gemm_points = (int)count;
    return true;
}

static bool read_curves(const json_t *rows, struct profile *out, struct err *err)
{
    size_t count = json_array_size(rows);
    if ((rows && !json_is_array(rows)) || count > MAX_CURVES)
        return err_set(err, ERR_INPUT, "collectives", "expected a list of at most %d objects",
                       MAX_CURVES);
    if (count == 0)
        return true;
    out->curves = arena_grow(NULL, count * sizeof *out->curves);
    for (size_t i = 0; i < count; i++)
        if (!curve_read(json_array_get(rows, i), &out->curves[i], err))
            return err_within_item(err, "collectives", i);
    out->num_curves = (int)count;
    return true;
}

static bool read_kernels(const json_t *rows, struct profile *out, struct err *err)
{
    size_t count = json_array_size(rows);
    if ((rows && !json_is_array(rows)) || count > MAX_KERNELS)
        return err_set(err, ERR_INPUT, "kernels", "expected a list of at most %d objects",
                       MAX_KERNELS);
    if (count == 0)
        return true;
    out->kernels = arena_grow(NULL, count * sizeof *out->kernels);
    for (size_t i = 0; i < count; i++) {
        if (!kernel_read(json_array_get(rows, i), &out->kernels[i], err))
            return err_within_item(err, "kernels", i);
        out->num_kernels = (int)i + 1;
    }
    return true;
}

static bool read_disturbed(const json_t *disturbed, struct profile *out, struct err *err)
{
    if (!disturbed)
        return true;
    if (!json_is_object(disturbed))
        return err_set(err, ERR_INPUT, "disturbed", "expected an object with \"core_share\"");
    out->is_disturbed = true;
    if (fields_read(disturbance_fields, num_disturbance_fields, disturbed, &out->disturbed, err))
        return true;
    return err_within(err, "disturbed");
}

bool profile_read(const json_t *object, struct profile *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    if (fields_read(profile_fields, num_profile_fields, object, out, err) &&
        datafile_check(profile_fields, num_profile_fields, object, err) &&
        provenance_read(json_object_get(object, "provenance"), out->measured, &out->provenance,
                        err) &&
        read_disturbed(json_object_get(object, "disturbed"), out, err) &&
        read_tiles(json_object_get(object, "gemm_tiles"), out, err) &&
        read_points(json_object_get(object, "gemm_points"), out, err) &&
        read_curves(json_object_get(object, "collectives"), out, err) &&
        read_kernels(json_object_get(object, "kernels"), out, err) &&
        read_attention(json_object_get(object, "attention"), out, err) &&
        fitted_read(json_object_get(object, "fitted_on"), &out->fitted, &out->num_fitted, err))
        return true;
    profile_release(out);
    return false;
}

static json_t *write_attention(const struct profile *profile)
{
    json_t *attention = json_object();
    for (int i = ATTENTION_FLASH1; i < NUM_ATTENTION_KERNELS; i++)
        if (is_present(&profile->attention[i]))
            json_object_set_new(
                attention, attention_names[i],
                fields_write(attention_fields, num_attention_fields, &profile->attention[i]));
    return attention;
}

static json_t *write_tiles(const struct profile *profile)
{
    json_t *rows = json_array();
    for (int i = 0; i < profile->num_gemm_tiles; i++) {
        const struct gemm_tile *tile = &profile->gemm_tiles[i];
        json_array_append_new(rows, json_pack("[i, i, f]", tile->m, tile->n, tile->efficiency));
    }
    return rows;
}

static json_t *write_points(const struct profile *profile)
{
    json_t *rows = json_array();
    for (int i = 0; i < profile->num_gemm_points; i++) {
        const struct gemm_point *point = &profile->gemm_points[i];
        char rate[64];
        units_write(point->flops_per_s, QUANTITY_FLOPS_PER_S, rate, sizeof rate);
        json_array_append_new(rows, json_pack("[f, f, f, s]", point->m, point->n, point->k, rate));
    }
    return rows;
}

static json_t *write_curves(const struct profile *profile)
{
    json_t *rows = json_array();
    for (int i = 0; i < profile->num_curves; i++)
        json_array_append_new(rows, curve_write(&profile->curves[i]));
    return rows;
}

static json_t *write_kernels(const struct profile *profile)
{
    json_t *rows = json_array();
    for (int i = 0; i < profile->num_kernels; i++)
        json_array_append_new(rows, kernel_write(&profile->kernels[i]));
    return rows;
}

json_t *profile_write(const struct profile *profile)
{
    json_t *object = datafile_write(profile_fields, num_profile_fields, profile);
    json_object_set_new(
        object, "provenance",
        fields_write(provenance_fields, num_provenance_fields, &profile->provenance));
    if (profile->is_disturbed)
        json_object_set_new(
            object, "disturbed",
            fields_write(disturbance_fields, num_disturbance_fields, &profile->disturbed));
    json_object_set_new(object, "gemm_tiles", write_tiles(profile));
    json_object_set_new(object, "gemm_points", write_points(profile));
    json_object_set_new(object, "collectives", write_curves(profile));
    if (profile->num_kernels > 0)
        json_object_set_new(object, "kernels", write_kernels(profile));
    json_object_set_new(object, "attention", write_attention(profile));
    json_object_set_new(object, "fitted_on", fitted_write(profile->fitted, profile->num_fitted));
    return object;
}

bool profile_load(const char *name, struct profile *out, struct err *err)
{
    struct json_file file;
    memset(out, 0, sizeof *out);
    if (!datafile_open(&profile_files, name, &file, err))
        return false;
    bool ok = profile_read(file.root, out, err);
    if (!ok)
        json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}

struct profile profile_missing(const char *gpu)
{
    struct attention_rate rate = { 1, 1, 0 };
    struct profile profile = {
        .is_missing = true,
        .gemm_efficiency = 1,
        .sustained = 1,
        .gemm_unaligned_efficiency = 1,
        .gemm_memory_efficiency = 1,
        .batched_gemm_efficiency = 1,
        .unaligned_efficiency = 1,
        .memory_efficiency = 1,
        .host_copy_efficiency = 1,
        .intra_bandwidth_factor = 1,
        .intra_latency_factor = 1,
        .inter_bandwidth_factor = 1,
        .inter_latency_factor = 1,
        .overlap_compute_slowdown = 1,
        .overlap_comm_slowdown = 1,
        .num_gemm_tiles = 1,
        .gemm_tiles = { { 256, 128, 1 } },
    };
    for (int i = 0; i < NUM_DTYPES; i++)
        profile.narrow[i].efficiency = 1;
    for (int i = ATTENTION_FLASH1; i < NUM_ATTENTION_KERNELS; i++)
        profile.attention[i] = rate;
    snprintf(profile.gpu_name, sizeof profile.gpu_name, "%s", gpu);
    return profile;
}

void profile_release(struct profile *profile)
{
    for (int i = 0; i < profile->num_kernels; i++)
        kernel_release(&profile->kernels[i]);
    free(profile->kernels);
    free(profile->gemm_points);
    free(profile->curves);
    free(profile->fitted);
    profile->gemm_points = NULL;
    profile->kernels = NULL;
    profile->num_kernels = 0;
    profile->curves = NULL;
    profile->fitted = NULL;
    profile->num_gemm_points = 0;
    profile->num_curves = 0;
    profile->num_fitted = 0;
}
