/* cli/score/validation.h - measured rows with their predictions and scores, as `validate` shows
 * them. */
#ifndef CLI_SCORE_VALIDATION_H
#define CLI_SCORE_VALIDATION_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "calibration/fit/diagnosis.h"
#include "calibration/score/choice.h"
#include "calibration/score/needed_widths.h"
#include "calibration/score/preference.h"
#include "calibration/score/score.h"
#include "cli/input/options.h"

enum { NUM_WORST = 5 };

struct validation {
    struct arena arena;
    struct run_systems *systems;
    struct learned learned; /* constants learned from the user's runs; empty without --learned */
    struct run_rows rows;
    struct run_case *cases;
    struct run_prediction *predictions;
    struct scores scores;
    struct preferences preferences;
    struct choices choices;
    struct interval_needs intervals;
    struct diagnoses why; /* possible causes of errors; empty without --why */
};

/* A text, such as a reason or an assumption, and the number of rows that have it. Arrays of tallies
 * start with the most frequent text. */
struct tally {
    const char *text;
    int count;
};
struct tallies {
    struct tally *at; /* the caller frees */
    int count, room;
};
struct tallies validation_assumptions(const struct validation *v);
struct tallies validation_skips(const struct validation *v);

/* Both print to stdout: tables (score_table.c) or one document (score_json.c). */
void validation_print_text(const struct validation *v, const struct options *options);
void validation_print_json(const struct validation *v);

/* "+4.5 %", right-aligned in ten columns; "-" for NaN. */
void validation_add_percent(struct text *out, double value, bool with_sign);
/* Adds the reason of an error: "compute is 84 % of the step; gemm_efficiency -9 % ..." */
void validation_add_reason(struct text *out, const struct diagnosis *of);

/* Writes PREFIX.md, the page about accuracy, and its picture PREFIX.svg (scatter.c). */
bool validation_write_report(const struct validation *v, const char *prefix, struct err *err);
void scatter_draw(const struct validation *v, struct text *svg);

#endif
