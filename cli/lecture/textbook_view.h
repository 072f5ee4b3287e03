/* cli/lecture/textbook_view.h - a plan as input of the textbook formulas, and the formulas'
 * results. */
#ifndef CLI_LECTURE_TEXTBOOK_VIEW_H
#define CLI_LECTURE_TEXTBOOK_VIEW_H

#include "base/field.h"
#include "cli/input/setup.h"
#include "cli/print/terminal.h"
#include "sim/textbook/estimate.h"

/* The textbook input of a plan. Its compute rate is the profile's rate of large matrix products, so
 * that textbook and prediction do not differ because of this constant. */
struct textbook_setup textbook_of(const struct setup *setup, const struct plan *plan);

/* textbook_field finds a row of textbook_estimate_fields by name; textbook_value returns its
 * value. */
const struct field *textbook_field(const char *name);
double textbook_value(const struct textbook_estimate *estimate, const struct field *field);

/* All values with their formulas and constants. */
json_t *textbook_json(const struct textbook_setup *setup, const struct textbook_estimate *estimate);

/* Shows the formulas' input and assumptions. */
void show_textbook_setup(const struct terminal *terminal, const struct textbook_setup *setup);

#endif
