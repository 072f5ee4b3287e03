/* base/field_row.h - one row of a table of fields: a member of a struct and its kind. */
#ifndef BASE_FIELD_ROW_H
#define BASE_FIELD_ROW_H

#include "base/units.h"

#include <stddef.h>

enum field_kind {
    FIELD_INT,      /* int */
    FIELD_COUNT,    /* double that holds a whole number up to 1e18 */
    FIELD_NUMBER,   /* double without unit */
    FIELD_BOOL,     /* bool; JSON true/false; text yes/no/true/false/on/off/1/0 */
    FIELD_TEXT,     /* char[size]; too long is an error */
    FIELD_NAME,     /* enum stored as int; JSON string from `names` */
    FIELD_SET,      /* unsigned bit set; JSON array of strings from `names`; bit i = names[i] */
    FIELD_QUANTITY, /* double in the base unit of `quantity`; text with its unit */
    FIELD_OTHER,    /* known key that the caller reads itself (arrays, nested objects) */
};

struct field {
    const char *name;
    enum field_kind kind;
    enum quantity quantity; /* FIELD_QUANTITY: its quantity; FIELD_INT: what is counted, if given */
    size_t offset;
    size_t size;              /* FIELD_TEXT: bytes of the array */
    double min, max;          /* inclusive, base units; both 0: no bounds */
    const char *const *names; /* FIELD_NAME, FIELD_SET: NULL-terminated */
    const char *fallback;     /* text of the value when the key is absent; NULL: required.
                                 FIELD_OTHER: non-NULL means optional */
    const char *doc;          /* one sentence */
};

#endif
