/* base/json_layout.h - JSON as people write it: what fits in 100 columns on one line, the rest
 * broken. The same values always give the same bytes. */
#ifndef BASE_JSON_LAYOUT_H
#define BASE_JSON_LAYOUT_H

#include "base/text.h"

#include <jansson.h>

/* A whole file, with its last line's end. */
void text_add_json(struct text *out, const json_t *json);

#endif
