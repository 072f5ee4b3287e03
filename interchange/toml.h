/* interchange/toml.h - a TOML file as settings with dotted keys.
 *
 * The part of TOML that configurations use: [tables], KEY = VALUE with bare keys; strings in single
 * or double quotes without escapes, numbers, booleans, and lists of these, which may go over lines.
 * Dates, inline tables, arrays of tables and multi-line strings are refused. */
#ifndef INTERCHANGE_TOML_H
#define INTERCHANGE_TOML_H

#include "interchange/settings.h"

/* where = "LINE". */
bool toml_read(const char *text, struct settings *out, struct err *err);

#endif
