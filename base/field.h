/* base/field.h - tables that describe the fields of a struct.
 *
 * One `struct field` row defines how a field is read from JSON, checked, written as JSON, set from
 * text (by a flag of the same name) and documented on the reference page. */
#ifndef BASE_FIELD_H
#define BASE_FIELD_H

#include "base/err.h"
#include "base/field_row.h"

#include <jansson.h>
#include <stdio.h>

/* Fills `out` from `object`. A missing, unknown (with "did you mean"), null or out-of-range key is
 * an error: `where` is the key, and msg has the expected and the found value. */
bool fields_read(const struct field *fields, size_t n, const json_t *object, void *out,
                 struct err *err);

/* Sets one field from text (FIELD_SET: comma-separated). */
bool field_parse(const struct field *field, const char *text, void *out, struct err *err);

/* The inverse of fields_read: a new object, every field except FIELD_OTHER. Quantities are written
 * as text with a unit that parses back to the same bits; whole numbers as JSON integers. */
json_t *fields_write(const struct field *fields, size_t n, const void *in);

/* Whether two structs have the same values in all fields except FIELD_OTHER. */
bool fields_are_equal(const struct field *fields, size_t n, const void *a, const void *b);

const struct field *fields_find(const struct field *fields, size_t n, const char *name);

/* One Markdown table row per field: name, type with unit, range or names, default, doc. */
void fields_document(const struct field *fields, size_t n, FILE *to);

#endif
