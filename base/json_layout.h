/* base/json_layout.h - writes readable JSON: a value that fits in 100 columns is on one line,
 * longer values are broken over several lines. Equal values give equal bytes. */
#ifndef BASE_JSON_LAYOUT_H
#define BASE_JSON_LAYOUT_H

#include "base/text.h"

#include <jansson.h>

/* Adds a complete file with a final newline. */
void text_add_json(struct text *out, const json_t *json);

#endif
