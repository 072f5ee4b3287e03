/* "explain --from-run": computes the GPUs' utilization, or the days, of a run given as text such as
 * "params=175B tokens=300B gpus=1024 gpu=a100 days=34". */
#include "cli/lecture/from_run.h"

#include "base/length.h"
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define F(member) #member, .offset = offsetof(struct from_run, member)
static const struct field fields[] = {
    { F(params), .kind = FIELD_QUANTITY, .quantity = QUANTITY_TOKENS, .min = 1, .max = 1e18 },
    { F(tokens), .kind = FIELD_QUANTITY, .quantity = QUANTITY_TOKENS, .min = 1, .max = 1e18 },
    { F(gpus), .kind = FIELD_INT, .min = 1, .max = MOST_GPUS },
    { F(gpu), .kind = FIELD_TEXT, .size = sizeof((struct from_run *)0)->gpu },
    { F(dtype), .kind = FIELD_NAME, .names = dtype_names },
    { F(days), .kind = FIELD_NUMBER, .min = 1e-6, .max = 1e6 },
    { F(u), .kind = FIELD_NUMBER, .min = 1e-6, .max = 1 },
};
#undef F
enum { NUM_FIELDS = LENGTH(fields) };

static const char example[] = "params=175B tokens=300B gpus=1024 gpu=a100 days=34";

/* --- the words ------------------------------------------------------------------------------ */

/* Sets a value from text. Counts are read as token counts: 175B means 175 Btok. */
static bool set_value(const struct field *field, const char *value, struct from_run *out,
                      struct err *err)
{
    char text[80];
    bool is_count = field->kind == FIELD_QUANTITY;
    snprintf(text, sizeof text, "%s%s", value, is_count ? "tok" : "");
    if (field_parse(field, text, out, err))
        return true;
    *err = (struct err){ 0 };
    return is_count ? err_set(err, ERR_USAGE, "--from-run",
                              "expected %s=NUMBER with k, M, B or T, 1 to 10^18; found \"%s\"",
                              field->name, value)
                    : err_set(err, ERR_USAGE, "--from-run",
                              "expected %s= with a value as in \"%s\"; found \"%s\"", field->name,
                              example, value);
}

static bool unknown_word(const char *word, const char *name, struct err *err)
{
    const char *names[NUM_FIELDS];
    for (int i = 0; i < NUM_FIELDS; i++)
        names[i] = fields[i].name;
    const char *nearest = text_nearest(name, names, NUM_FIELDS);
    return err_set(err, ERR_USAGE, "--from-run",
                   "expected words like \"%s\"; found \"%.40s\"%s%s%s", example, word,
                   nearest ? ", did you mean " : "", nearest ? nearest : "", nearest ? "=?" : "");
}

static bool read_word(const char *word, bool given[NUM_FIELDS], struct from_run *out,
                      struct err *err)
{
    char name[64];
    size_t length = strcspn(word, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), word);
    const struct field *field = fields_find(fields, NUM_FIELDS, name);
    if (!field || word[length] != '=')
        return unknown_word(word, name, err);
    if (given[field - fields])
        return err_set(err, ERR_USAGE, "--from-run", "has %s= twice", name);
    given[field - fields] = true;
    return set_value(field, word + length + 1, out, err);
}

static bool check_given(const bool given[NUM_FIELDS], const struct from_run *run, struct err *err)
{
    enum { FIRST_OPTIONAL = 4 };
    for (int i = 0; i < FIRST_OPTIONAL; i++)
        if (!given[i])
            return err_set(err, ERR_USAGE, "--from-run", "lacks %s=; for example \"%s\"",
                           fields[i].name, example);
    if ((run->days > 0) == (run->u > 0))
        return err_set(err, ERR_USAGE, "--from-run",
                       "expected days=, to infer U, or u=, to infer the days; found %s",
                       run->days > 0 ? "both" : "neither");
    return true;
}

static bool find_gpu(struct from_run *run, struct err *err)
{
    if (!gpu_load(run->gpu, &run->device, err)) {
        err_prefix(err, "--from-run: gpu=");
        return false;
    }
    const double *peaks = run->device.peak_flops_per_s;
    if (run->dtype < 0)
        run->dtype = peaks[DTYPE_BF16] > 0   ? DTYPE_BF16
                     : peaks[DTYPE_FP16] > 0 ? DTYPE_FP16
                                             : DTYPE_FP32;
    if (peaks[run->dtype] > 0)
        return true;
    return err_set(err, ERR_USAGE, "--from-run", "%s has no matrix units for %s", run->device.name,
                   dtype_names[run->dtype]);
}

bool from_run_read(const char *text, struct from_run *out, struct err *err)
{
    bool given[NUM_FIELDS] = { false };
    *out = (struct from_run){ .dtype = -1 };
    while (*(text += strspn(text, " "))) {
        char word[128];
        size_t length = strcspn(text, " ");
        if (length >= sizeof word)
            return unknown_word(text, text, err);
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (!read_word(word, given, out, err))
            return false;
        text += length;
    }
    return check_given(given, out, err) && find_gpu(out, err);
}

/* --- the rows ------------------------------------------------------------------------------- */

static struct textbook_gpus gpus_of(const struct from_run *run)
{
    return (struct textbook_gpus){ run->gpus, run->device.peak_flops_per_s[run->dtype] };
}

static double utilization(const struct from_run *run, double recomputed)
{
    double flops = textbook_flops(run->params, run->tokens, recomputed);
    return textbook_utilization(gpus_of(run), flops, run->days * DAY_S);
}

static double run_s(const struct from_run *run, double recomputed)
{
    double flops = textbook_flops(run->params, run->tokens, recomputed);
    return textbook_compute_s(gpus_of(run), flops, run->u);
}

static void add_row(struct lecture *lecture, const struct from_run *run, bool recomputes)
{
    bool asks_u = run->days > 0;
    double value = asks_u ? utilization(run, recomputes) : run_s(run, recomputes);
    const char *const names[2][2] = { { "days, no recompute", "days, full recompute" },
                                      { "U, no recompute", "U, full recompute" } };
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = "THE RUN BY THE LECTURES",
                                          .name = names[asks_u][recomputes],
                                          .unit = asks_u ? LECTURE_SHARE : LECTURE_DAYS,
                                          .textbook = value,
                                          .detailed = NAN },
                    lecture_flops_formula(recomputes));
    text_add(&row->formula, asks_u ? "/(N F t)" : "/(N F U)");
    text_add(&row->filled, "%d x %s x %s / (%d x %s x ", recomputes ? 8 : 6,
             in_digits(run->tokens).text, in_digits(run->params).text, run->gpus,
             in_flops_per_s(gpus_of(run).peak_flops_per_s).text);
    if (asks_u)
        text_add(&row->filled, "%.6g d)", run->days);
    else
        text_add(&row->filled, "%.6g)", run->u);
    lecture_gap(row, "%s",
                recomputes
                    ? "With full recompute a run takes 8 T P FLOPs (SC'21)."
                    : "Without recompute a run takes 6 T P FLOPs, if attention is not counted.");
    if (asks_u && value > 1)
        lecture_gap(row, " This U is above 1, so the run executed fewer FLOPs.");
}

struct lecture from_run_lecture(const struct from_run *run)
{
    struct lecture lecture = { .count = 0 };
    add_row(&lecture, run, true);
    add_row(&lecture, run, false);
    return lecture;
}

static json_t *run_json(const struct from_run *run)
{
    json_t *json =
        json_pack("{s:f, s:f, s:i, s:s, s:s, s:f}", "params", run->params, "tokens", run->tokens,
                  "gpus", run->gpus, "gpu", run->device.name, "dtype", dtype_names[run->dtype],
                  "peak_flops_per_s", gpus_of(run).peak_flops_per_s);
    bool asks_u = run->days > 0;
    json_object_set_new(json, "days", asks_u ? json_real(run->days) : json_null());
    json_object_set_new(json, "u", asks_u ? json_null() : json_real(run->u));
    for (int recomputes = 1; recomputes >= 0; recomputes--) {
        const char *const names[2][2] = { { "days_6tp", "days_8tp" }, { "u_6tp", "u_8tp" } };
        json_object_set_new(
            json, names[asks_u][recomputes],
            json_real(asks_u ? utilization(run, recomputes) : run_s(run, recomputes) / DAY_S));
    }
    return json;
}

void explain_from_run(const struct options *options, struct err *err)
{
    struct terminal terminal = terminal_of_stdout();
    struct from_run run;
    if (!from_run_read(options->from_run, &run, err))
        return;
    struct lecture lecture = from_run_lecture(&run);
    if (options->json) {
        json_t *json = json_object();
        json_object_set_new(json, "from_run", run_json(&run));
        json_object_set_new(json, "lecture", lecture_json(&lecture));
        print_json(json);
        json_decref(json);
    } else {
        printf("P %s parameters%sT %s tokens%sN %d %s%sF %s dense %s\n",
               in_unit(run.params, LECTURE_COUNT).text, terminal_dot(&terminal),
               in_unit(run.tokens, LECTURE_COUNT).text, terminal_dot(&terminal), run.gpus,
               run.device.name, terminal_dot(&terminal),
               in_flops_per_s(gpus_of(&run).peak_flops_per_s).text, dtype_names[run.dtype]);
        show_lecture(&terminal, &lecture);
    }
    lecture_release(&lecture);
}
