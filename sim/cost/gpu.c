#include "base/length.h"
#include "sim/cost/hardware.h"

#include "base/json.h"
#include "sim/cost/datafile.h"

#include <stdio.h>
#include <string.h>

#define AT(member)             .offset = offsetof(struct gpu, member)
#define TEXT(member)           .kind = FIELD_TEXT, AT(member), .size = sizeof((struct gpu *)0)->member
#define QUANTITY(unit, member) .kind = FIELD_QUANTITY, .quantity = QUANTITY_##unit, AT(member)

// clang-format off
const struct field gpu_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of the file's form: 1." },
    { .name = "name", TEXT(name), .doc = "Name of the file." },
    { .name = "source", TEXT(source), .doc = "Where the numbers come from." },
    { .name = "sources", .kind = FIELD_OTHER, .fallback = "", .doc = "Sources of single keys." },
    { .name = "words", .kind = FIELD_OTHER, .fallback = "",
      .doc = "Up to six other names, such as the GPU's names in measured rows." },
    { .name = "arch", .kind = FIELD_NAME, AT(arch), .names = arch_names, .fallback = "ampere",
      .doc = "Generation; absent: the oldest generation that has the stated peaks." },
    { .name = "die", TEXT(die), .fallback = "",
      .doc = "Chip, in lower case: GPUs with the same chip share its measured constants." },
    { .name = "memory", QUANTITY(BYTES, memory_bytes), .min = 1, .max = 1e18,
      .doc = "Device memory." },
    { .name = "usable", QUANTITY(BYTES, usable_bytes), .min = 0, .max = 1e18, .fallback = "0 B",
      .doc = "Memory that programs can use: what nvidia-smi shows minus the driver's part; 0: all." },
    { .name = "memory_bandwidth", QUANTITY(BYTES_PER_S, memory_bytes_per_s), .min = 1, .max = 1e18,
      .doc = "Bandwidth of the device memory." },
    { .name = "num_sms", .kind = FIELD_INT, AT(num_sms), .min = 1, .max = 4096,
      .doc = "Streaming multiprocessors." },
    { .name = "clock", QUANTITY(HERTZ, clock_hz), .min = 1, .max = 1e12,
      .doc = "Clock rate for which the peaks are stated." },
    { .name = "l2", QUANTITY(BYTES, l2_bytes), .min = 0, .max = 1e18, .fallback = "40 MiB",
      .doc = "Last-level cache." },
    { .name = "power", QUANTITY(WATTS, power_w), .min = 0, .max = 1e6,
      .doc = "Power limit of the board." },
    { .name = "pcie", QUANTITY(BYTES_PER_S, pcie_bytes_per_s), .min = 1, .max = 1e18,
      .fallback = "32 GB/s", .doc = "Link to the host, one direction." },
    { .name = "mtbf", QUANTITY(SECONDS, mtbf_s), .min = 1, .max = 1e18, .fallback = "79230 h",
      .doc = "Mean time between failures of one GPU, including its memory and silent errors. "
             "Default: 268 on 16384 H100 in 54 days (Grattafiori et al. 2024, table 5)." },
    { .name = "peak", .kind = FIELD_OTHER,
      .doc = "Dense peak by number format: fp32, fp16, bf16, fp8, fp4; absent: not supported." },
};
// clang-format on
const size_t num_gpu_fields = LENGTH(gpu_fields);

#define PEAK(dtype)                                                                        \
    .kind = FIELD_QUANTITY, .quantity = QUANTITY_FLOPS_PER_S, AT(peak_flops_per_s[dtype]), \
    .min = 0, .max = 1e21, .fallback = "0 FLOP/s"

// clang-format off
static const struct field peak_fields[] = {
    { .name = "fp32", PEAK(DTYPE_FP32), .doc = "Without TF32." },
    { .name = "fp16", PEAK(DTYPE_FP16), .doc = "Accumulated in fp32." },
    { .name = "bf16", PEAK(DTYPE_BF16), .doc = "Accumulated in fp32." },
    { .name = "fp8", PEAK(DTYPE_FP8), .doc = "Accumulated in fp32." },
    { .name = "fp4", PEAK(DTYPE_FP4), .doc = "Accumulated in fp32." },
};
// clang-format on
enum { NUM_PEAK_FIELDS = LENGTH(peak_fields) };

const struct datafile_kind gpu_files = { "GPU", "calibration/hardware", "calibration/hardware" };

double gpu_usable_bytes(const struct gpu *gpu)
{
    return gpu->usable_bytes > 0 ? gpu->usable_bytes : gpu->memory_bytes;
}

static bool read_words(const json_t *words, struct gpu *out, struct err *err)
{
    enum { MAX_WORDS = LENGTH(out->words) };
    if (words && !json_is_array(words))
        return err_set(err, ERR_INPUT, "words", "expected a list of texts");
    size_t count = json_array_size(words);
    if (count > MAX_WORDS)
        return err_set(err, ERR_INPUT, "words", "expected at most %d; found %zu", MAX_WORDS, count);
    for (size_t i = 0; i < count; i++) {
        const char *word = json_plain_text(json_array_get(words, i));
        size_t length = word ? strlen(word) : 0;
        char where[32];
        snprintf(where, sizeof where, "words[%zu]", i);
        if (length == 0 || length >= sizeof *out->words)
            return err_set(err, ERR_INPUT, where,
                           "expected a text of 1 to %zu plain bytes; found %zu",
                           sizeof *out->words - 1, length);
        memcpy(out->words[i], word, length);
    }
    return true;
}

static bool read_peaks(const json_t *peaks, struct gpu *out, struct err *err)
{
    bool any = false;
    if (!fields_read(peak_fields, NUM_PEAK_FIELDS, peaks, out, err))
        return err_within(err, "peak");
    for (int i = 0; i < NUM_DTYPES; i++)
        any = any || out->peak_flops_per_s[i] > 0;
    return any ||
           err_set(err, ERR_INPUT, "peak", "expected the peak of at least one number format");
}

/* Infers the generation: Volta multiplies only fp16, Ampere also bf16, Hopper also fp8; Blackwell
 * starts at 1.5 PFLOP/s. */
static int arch_of_peaks(const double *peak_flops_per_s)
{
    if (peak_flops_per_s[DTYPE_FP8] > 0)
        return peak_flops_per_s[DTYPE_BF16] > 1.5e15 ? ARCH_BLACKWELL : ARCH_HOPPER;
    return peak_flops_per_s[DTYPE_BF16] > 0 ? ARCH_AMPERE : ARCH_VOLTA;
}

bool gpu_read(const json_t *object, struct gpu *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    if (!fields_read(gpu_fields, num_gpu_fields, object, out, err) ||
        !datafile_check(gpu_fields, num_gpu_fields, object, err) ||
        !read_words(json_object_get(object, "words"), out, err) ||
        !read_peaks(json_object_get(object, "peak"), out, err))
        return false;
    if (!json_object_get(object, "arch"))
        out->arch = arch_of_peaks(out->peak_flops_per_s);
    return true;
}

json_t *gpu_write(const struct gpu *gpu)
{
    json_t *object = datafile_write(gpu_fields, num_gpu_fields, gpu);
    json_t *words = json_array();
    for (size_t i = 0; i < LENGTH(gpu->words); i++)
        if (*gpu->words[i])
            json_array_append_new(words, json_string(gpu->words[i]));
    json_object_set_new(object, "words", words);
    json_object_set_new(object, "peak", fields_write(peak_fields, NUM_PEAK_FIELDS, gpu));
    return object;
}

bool gpu_load(const char *name, struct gpu *out, struct err *err)
{
    struct json_file file;
    if (!datafile_open(&gpu_files, name, &file, err))
        return false;
    bool ok = gpu_read(file.root, out, err);
    if (!ok)
        json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}
