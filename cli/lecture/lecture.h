/* cli/lecture/lecture.h - the textbook's formulas for one plan. Each row has a formula, the formula
 * with numbers filled in, its value, the detailed model's value, and a sentence about the gap,
 * which is the difference between the two values.
 *
 * Rows come from the lecture_*.c files, by topic. Tests evaluate the arithmetic in `filled`, whose
 * result must equal `textbook`. */
#ifndef CLI_LECTURE_LECTURE_H
#define CLI_LECTURE_LECTURE_H

#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "sim/textbook/estimate.h"

enum lecture_unit {
    LECTURE_COUNT,
    LECTURE_BYTES,
    LECTURE_SECONDS,
    LECTURE_DAYS, /* stored in seconds, shown in days */
    LECTURE_FLOPS,
    LECTURE_SHARE, /* a fraction of 1 */
    LECTURE_WATT_HOURS,
    LECTURE_GRAMS,
    NUM_LECTURE_UNITS
};
extern const char *const lecture_unit_names[NUM_LECTURE_UNITS]; /* names in JSON: "bytes" */

struct lecture_row {
    const char *topic, *name;
    enum lecture_unit unit;
    double textbook;
    double detailed; /* NAN: the detailed model has no such quantity */
    struct text formula, filled, gap;
};

enum { MAX_LECTURE_ROWS = 64 };
struct lecture {
    struct lecture_row rows[MAX_LECTURE_ROWS];
    int count;
};

/* The data from which all rows are computed. */
struct lecture_case {
    const struct setup *setup; /* its plan is explained */
    const struct textbook_setup *textbook;
    const struct textbook_estimate *estimate;
    const struct prediction *prediction;
    struct evaluator *variants; /* evaluator for variants of the plan */
    struct textbook_gpus gpus;
    double copy_state_bytes; /* state bytes of one copy of the model, over its t p c ranks (tensor x
                                pipeline x context) */
    double copy_activations_bytes; /* activation bytes of one copy */
};

struct lecture lecture_of(const struct setup *setup, const struct textbook_setup *textbook,
                          const struct textbook_estimate *estimate,
                          const struct prediction *prediction);
void lecture_release(struct lecture *lecture);

void show_lecture(const struct terminal *terminal, const struct lecture *lecture);
json_t *lecture_json(const struct lecture *lecture);

/* --- functions for files that add rows ------------------------------------------------------ */

/* Adds a row and returns it. */
struct lecture_row *lecture_add(struct lecture *lecture, struct lecture_row row,
                                const char *formula);
/* Formula of the FLOPs of T tokens with P parameters, if a fraction `recomputed` of the layers is
 * recomputed: "6 T P" to "8 T P". */
const char *lecture_flops_formula(double recomputed);
/* Adds a sentence about the gap when textbook and detailed value differ by 0.5 % or more, or one is
 * missing. */
void lecture_gap(struct lecture_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool lecture_has_gap(const struct lecture_row *row);

/* The detailed model's prediction of another plan; false with err when the plan is not possible.
 * Its stages are valid until the next call. */
bool lecture_predict(const struct lecture_case *of, const struct plan *plan, struct prediction *out,
                     struct err *err);

/* A number with its unit, four digits and a decimal prefix: "444.5 GB". The text is valid until the
 * end of the full expression. */
struct lecture_number {
    char text[32];
};
struct lecture_number in_bytes(double bytes);
struct lecture_number in_bytes_per_s(double bytes_per_s);
struct lecture_number in_flops_per_s(double flops_per_s);
struct lecture_number in_seconds(double seconds);
struct lecture_number in_digits(double number); /* without unit: "1.752e+11" */
struct lecture_number in_unit(double value, enum lecture_unit unit);

void lecture_add_work(struct lecture *lecture, const struct lecture_case *of);
void lecture_add_mfu(struct lecture *lecture, const struct lecture_case *of);
void lecture_add_copy(struct lecture *lecture, const struct lecture_case *of);
void lecture_add_memory(struct lecture *lecture, const struct lecture_case *of);
void lecture_add_pipeline(struct lecture *lecture, const struct lecture_case *of);
void lecture_add_communication(struct lecture *lecture, const struct lecture_case *of);
void lecture_add_run(struct lecture *lecture, const struct lecture_case *of);

#endif
