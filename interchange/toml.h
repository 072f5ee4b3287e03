/* interchange/toml.h - a TOML file as settings with dotted keys.
 *
 * It reads the part of TOML that configurations use: [tables], KEY = VALUE with bare keys; strings
 * in single or double quotes without escapes, numbers, booleans, and lists of these, which may span
 * lines. Dates, inline tables, arrays of tables and multi-line strings are rejected. */
#ifndef INTERCHANGE_TOML_H
#define INTERCHANGE_TOML_H

#include "interchange/settings.h"

/* On a syntax error where = "LINE". */
bool toml_read(const char *text, struct settings *out, struct err *err);

#endif
