/* base/field.h - tables that describe the fields of a struct.
 *
 * One `struct field` row drives reading JSON, checking bounds, writing JSON, setting from text (a
 * flag of the same name), and the reference page. */
#ifndef BASE_FIELD_H
#define BASE_FIELD_H

#include "base/err.h"
#include "base/units.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

enum field_kind {
    FIELD_INT,      /* int */
    FIELD_COUNT,    /* double that holds a whole number up to 1e18 */
    FIELD_NUMBER,   /* double without unit */
    FIELD_BOOL,     /* bool; JSON true/false; text yes/no/true/false/on/off/1/0 */
    FIELD_TEXT,     /* char[size]; too long is an error */
    FIELD_NAME,     /* enum stored as int; JSON string out of `names` */
    FIELD_SET,      /* unsigned bit set; JSON array of strings out of `names`; bit i = names[i] */
    FIELD_QUANTITY, /* double in the base unit of `quantity`; text with its unit */
    FIELD_OTHER,    /* known key that the caller reads itself (arrays, nested objects) */
};

struct field {
    const char *name;
    enum field_kind kind;
    enum quantity quantity; /* FIELD_QUANTITY; FIELD_INT: what it counts, where given */
    size_t offset;
    size_t size;              /* FIELD_TEXT: bytes of the array */
    double min, max;          /* inclusive, base units; both 0: no bounds */
    const char *const *names; /* FIELD_NAME, FIELD_SET: NULL-terminated */
    const char *fallback;     /* text of the value when the key is absent; NULL: required.
                                 FIELD_OTHER: non-NULL means optional */
    const char *doc;          /* one sentence */
};

/* Fills `out` from `object`. A missing, unknown (with "did you mean"), null or out-of-range key is
 * an error whose `where` is the key and whose msg says what was expected and what was found. */
bool fields_read(const struct field *fields, size_t n, const json_t *object, void *out,
                 struct err *err);

/* Sets one field from text (FIELD_SET: comma-separated). */
bool field_parse(const struct field *field, const char *text, void *out, struct err *err);

/* The inverse of fields_read: a new object, every field but FIELD_OTHER. Quantities are written as
 * text with a unit that parses back to the same bits; whole numbers as JSON integers. */
json_t *fields_write(const struct field *fields, size_t n, const void *in);

/* Whether two structs have the same values in all fields but FIELD_OTHER. */
bool fields_are_equal(const struct field *fields, size_t n, const void *a, const void *b);

const struct field *fields_find(const struct field *fields, size_t n, const char *name);

/* One Markdown table row per field: name, type with unit, range or names, default, doc. */
void fields_document(const struct field *fields, size_t n, FILE *to);

#endif
