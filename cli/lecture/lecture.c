/* Functions that make and print the rows of `explain`: a textbook formula, its value, and the
 * detailed model's value. */
#include "cli/lecture/lecture.h"

#include "base/length.h"
#include "base/units.h"
#include "cli/print/scale.h"
#include "cli/views/answer.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const lecture_unit_names[NUM_LECTURE_UNITS] = {
    [LECTURE_COUNT] = "count",           [LECTURE_BYTES] = "bytes", [LECTURE_SECONDS] = "seconds",
    [LECTURE_DAYS] = "seconds",          [LECTURE_FLOPS] = "flops", [LECTURE_SHARE] = "share",
    [LECTURE_WATT_HOURS] = "watt-hours", [LECTURE_GRAMS] = "grams",
};

/* --- numbers -------------------------------------------------------------------------------- */

/* Writes a value with 4 digits and the prefix that leaves one to three digits before the point. */
static struct lecture_number scaled(double value, const char *const prefixes[], int num_prefixes,
                                    const char *unit)
{
    struct lecture_number out;
    int prefix = 0;
    while (prefix < num_prefixes - 1 && fabs(value) >= 999.95) {
        value /= 1000;
        prefix++;
    }
    snprintf(out.text, sizeof out.text, "%.4g %s%s", value, prefixes[prefix], unit);
    return out;
}

static const char *const large[] = { "", "k", "M", "G", "T", "P", "E" };
static const char *const counts[] = { "", "k", "M", "B", "T" };
enum { NUM_LARGE = LENGTH(large), NUM_COUNTS = LENGTH(counts) };

struct lecture_number in_bytes(double bytes)
{
    return scaled(bytes, large, NUM_LARGE - 1, "B");
}

struct lecture_number in_bytes_per_s(double bytes_per_s)
{
    return scaled(bytes_per_s, large, NUM_LARGE - 2, "B/s");
}

struct lecture_number in_flops_per_s(double flops_per_s)
{
    return scaled(flops_per_s, large, NUM_LARGE, "FLOP/s");
}

struct lecture_number in_seconds(double seconds)
{
    static const char *const small[] = { "n", "u", "m", "" };
    struct lecture_number out;
    if (seconds == 0)
        return (struct lecture_number){ "0 s" };
    if (seconds < 1000)
        return scaled(seconds * 1e9, small, 4, "s");
    if (seconds < 10000)
        snprintf(out.text, sizeof out.text, "%.4g s", seconds);
    else
        snprintf(out.text, sizeof out.text, "%.4g h", seconds / 3600);
    return out;
}

struct lecture_number in_digits(double number)
{
    struct lecture_number out;
    bool is_short = number == floor(number) && fabs(number) < 1e6;
    snprintf(out.text, sizeof out.text, is_short ? "%.0f" : "%.5g", number);
    return out;
}

static struct lecture_number in_percent(double share)
{
    struct lecture_number out;
    snprintf(out.text, sizeof out.text, "%.4g %%", 100 * share);
    return out;
}

struct lecture_number in_unit(double value, enum lecture_unit unit)
{
    struct lecture_number out;
    switch (unit) {
    case LECTURE_BYTES:
        return in_bytes(value);
    case LECTURE_SECONDS:
        return in_seconds(value);
    case LECTURE_DAYS:
        snprintf(out.text, sizeof out.text, "%.4g days", value / DAY_S);
        return out;
    case LECTURE_FLOPS:
        return scaled(value, large, NUM_LARGE, "FLOP");
    case LECTURE_SHARE:
        return in_percent(value);
    case LECTURE_WATT_HOURS:
        return scaled(value, large, NUM_LARGE, "Wh");
    case LECTURE_GRAMS:
        return scaled(value / 1e6, counts, 2, "t");
    case LECTURE_COUNT:
    case NUM_LECTURE_UNITS:
        break;
    }
    out = scaled(value, counts, NUM_COUNTS, "");
    size_t end = strlen(out.text);
    if (out.text[end - 1] == ' ')
        out.text[end - 1] = '\0';
    return out;
}

/* --- rows ----------------------------------------------------------------------------------- */

struct lecture_row *lecture_add(struct lecture *lecture, struct lecture_row row,
                                const char *formula)
{
    assert(lecture->count < MAX_LECTURE_ROWS);
    struct lecture_row *added = &lecture->rows[lecture->count++];
    *added = row;
    text_add(&added->formula, "%s", formula);
    return added;
}

const char *lecture_flops_formula(double recomputed)
{
    if (recomputed == 0)
        return "6 T P";
    return recomputed == 1 ? "8 T P" : "(6 + 2 r) T P";
}

bool lecture_has_gap(const struct lecture_row *row)
{
    double tolerance = 0.005;
    return !(fabs(row->detailed - row->textbook) <= tolerance * fabs(row->textbook));
}

void lecture_gap(struct lecture_row *row, const char *format, ...)
{
    char sentence[400];
    va_list args;
    if (!lecture_has_gap(row))
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    text_add(&row->gap, "%s", sentence);
}

bool lecture_predict(const struct lecture_case *of, const struct plan *plan, struct prediction *out,
                     struct err *err)
{
    const struct setup *setup = of->setup;
    if (plan_check(plan, &setup->model, setup->model.batch, setup->system.num_gpus, err) ||
        !system_check(&setup->system, plan, err))
        return false;
    *out = evaluate(of->variants, plan);
    return true;
}

static struct lecture_case case_of(const struct setup *setup, const struct textbook_setup *textbook,
                                   const struct textbook_estimate *estimate,
                                   const struct prediction *prediction)
{
    struct lecture_case of = {
        .setup = setup,
        .textbook = textbook,
        .estimate = estimate,
        .prediction = prediction,
        .gpus = { setup->system.num_gpus, textbook->peak_flops_per_s },
    };
    double ranks = (double)setup->plan.tp * setup->plan.cp;
    for (int i = 0; i < prediction->num_stages; i++) {
        const struct stage_memory *stage = &prediction->stages[i];
        of.copy_state_bytes +=
            ranks * (stage->weights_bytes + stage->gradients_bytes + stage->optimizer_bytes);
        of.copy_activations_bytes += ranks * stage->activations_bytes;
    }
    return of;
}

struct lecture lecture_of(const struct setup *setup, const struct textbook_setup *textbook,
                          const struct textbook_estimate *estimate,
                          const struct prediction *prediction)
{
    struct lecture lecture = { .count = 0 };
    struct lecture_case of = case_of(setup, textbook, estimate, prediction);
    of.variants = evaluator_new(&setup->system, &setup->model);
    lecture_add_work(&lecture, &of);
    lecture_add_mfu(&lecture, &of);
    lecture_add_copy(&lecture, &of);
    lecture_add_memory(&lecture, &of);
    lecture_add_pipeline(&lecture, &of);
    lecture_add_communication(&lecture, &of);
    lecture_add_run(&lecture, &of);
    evaluator_free(of.variants);
    return lecture;
}

void lecture_release(struct lecture *lecture)
{
    for (int i = 0; i < lecture->count; i++) {
        text_release(&lecture->rows[i].formula);
        text_release(&lecture->rows[i].filled);
        text_release(&lecture->rows[i].gap);
    }
    lecture->count = 0;
}

/* --- text output ---------------------------------------------------------------------------- */

enum { NAME_WIDTH = 34, NUMBER_WIDTH = 14, LINE_WIDTH = 110 };

static bool has_detailed(const struct lecture *lecture)
{
    for (int i = 0; i < lecture->count; i++)
        if (isfinite(lecture->rows[i].detailed))
            return true;
    return false;
}

static void show_topic(const struct terminal *terminal, const char *topic, bool is_compared)
{
    printf("\n  %s%-*s", terminal_bold(terminal), is_compared ? NAME_WIDTH : 0, topic);
    if (is_compared)
        printf("%*s%*s%*s", NUMBER_WIDTH, "textbook", NUMBER_WIDTH, "detailed", NUMBER_WIDTH,
               "difference");
    printf("%s\n", terminal_plain(terminal));
}

static void add_difference(const struct terminal *terminal, const struct lecture_row *row,
                           struct text *out)
{
    struct text cell = { 0 };
    double percent = 100 * (row->detailed / row->textbook - 1);
    if (isfinite(percent) && fabs(percent) < 1000)
        text_add(&cell, "%s%.1f %%", percent < 0 ? terminal_minus(terminal) : "+", fabs(percent));
    if (cell.length > 0)
        text_add_padded(out, text_get(&cell), -NUMBER_WIDTH);
    text_release(&cell);
}

/* Number of decimals for four digits without an exponent. */
static int decimals_of(double number)
{
    return number >= 1000 ? 0 : number >= 100 ? 1 : number >= 10 ? 2 : 3;
}

/* Adds the value in GiB: lectures count in 10^9 bytes, but GPU memory in 2^30. */
static void add_gib(const struct lecture_row *row, struct text *out)
{
    if (row->unit != LECTURE_BYTES || row->textbook < GIB / 100)
        return;
    text_add(out, "   %.*f", decimals_of(row->textbook / GIB), row->textbook / GIB);
    if (isfinite(row->detailed))
        text_add(out, " and %.*f", decimals_of(row->detailed / GIB), row->detailed / GIB);
    text_add(out, " GiB");
}

static void show_numbers(const struct terminal *terminal, const struct lecture_row *row)
{
    struct text line = { 0 };
    bool is_compared = isfinite(row->detailed);
    text_add(&line, "  ");
    text_add_padded(&line, row->name, NAME_WIDTH);
    text_add_padded(&line, in_unit(row->textbook, row->unit).text, -NUMBER_WIDTH);
    if (is_compared)
        text_add_padded(&line, in_unit(row->detailed, row->unit).text, -NUMBER_WIDTH);
    if (is_compared)
        add_difference(terminal, row, &line);
    add_gib(row, &line);
    printf("%s\n", text_get(&line));
    text_release(&line);
}

static void show_wrapped(const struct text *text)
{
    enum { INDENT = 6, NEXT_INDENT = 8 };
    printf("%*s", INDENT, "");
    terminal_print_words(text_get(text), INDENT, NEXT_INDENT, LINE_WIDTH);
}

static void show_row(const struct terminal *terminal, const struct lecture_row *row)
{
    struct text formula = { 0 };
    show_numbers(terminal, row);
    text_add(&formula, "%s = %s", text_get(&row->formula), text_get(&row->filled));
    printf("%s", terminal_dim(terminal));
    show_wrapped(&formula);
    printf("%s", terminal_plain(terminal));
    if (row->gap.length > 0)
        show_wrapped(&row->gap);
    text_release(&formula);
}

void show_lecture(const struct terminal *terminal, const struct lecture *lecture)
{
    const char *topic = NULL;
    for (int i = 0; i < lecture->count; i++) {
        const struct lecture_row *row = &lecture->rows[i];
        if (row->topic != topic)
            show_topic(terminal, row->topic, has_detailed(lecture));
        topic = row->topic;
        show_row(terminal, row);
    }
}

json_t *lecture_json(const struct lecture *lecture)
{
    json_t *list = json_array();
    for (int i = 0; i < lecture->count; i++) {
        const struct lecture_row *row = &lecture->rows[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:o, s:s}", "topic", row->topic, "name",
                            row->name, "formula", text_get(&row->formula), "filled",
                            text_get(&row->filled), "unit", lecture_unit_names[row->unit],
                            "textbook", row->textbook, "detailed", finite_json(row->detailed),
                            "gap", text_get(&row->gap)));
    }
    return list;
}
