/* base/field_form.h - how each kind of field is read, written and named in a message.
 *
 * Only the sources of base/field.h include it. */
#ifndef BASE_FIELD_FORM_H
#define BASE_FIELD_FORM_H

#include "base/err.h"
#include "base/field_row.h"
#include "base/text.h"

#include <jansson.h>

/* One row per kind. `slot` is the member itself; errors of `read` have an empty `where`. */
struct field_form {
    const char *name;     /* name in the reference page */
    const char *expected; /* completes "expected ..."; the names or the unit may follow */
    json_t *(*from_text)(const char *text);
    bool (*read)(const struct field *field, const json_t *value, void *slot, struct err *err);
    json_t *(*write)(const struct field *field, const void *slot);
};
extern const struct field_form field_forms[FIELD_OTHER + 1]; /* FIELD_OTHER has no functions */

/* "bf16, fp8" */
void field_add_names(struct text *text, const struct field *field);

/* "an integer", "one of bf16, fp8", "a quantity with its unit, like \"80 GiB\"" */
void field_add_expected(struct text *text, const struct field *field);

/* "1 to 8", "at least 0 s", "at most 1"; "" without bounds. */
void field_range(const struct field *field, char *text, size_t size);

/* Sets the error "expected ...; found ..." and returns false. Strings are quoted; of arrays and
 * objects only the type is named. */
bool field_refuse(const char *expected, const json_t *found, struct err *err);

#endif
