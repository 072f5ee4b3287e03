/* base/json_layout.h - JSON as people write it: a value that fits in 100 columns is on one line,
 * any other is broken. The same values always give the same bytes. */
#ifndef BASE_JSON_LAYOUT_H
#define BASE_JSON_LAYOUT_H

#include "base/text.h"

#include <jansson.h>

/* Adds a whole file, which ends in a newline. */
void text_add_json(struct text *out, const json_t *json);

#endif
