/* cli/print/terminal.h - what stdout can display, and drawing on it. */
#ifndef CLI_PRINT_TERMINAL_H
#define CLI_PRINT_TERMINAL_H

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

/* Prints indented JSON and a newline. */
void print_json(const json_t *json);
bool json_was_printed(void);

/* Flushes stdout. False with errno when something could not be written. */
bool flush_stdout(void);

struct terminal {
    bool utf8;   /* the locale's encoding is UTF-8 */
    bool colour; /* stdout is a terminal, and neither NO_COLOR nor TERM=dumb forbids colour */
};
struct terminal terminal_of_stdout(void);

/* Columns of stdout's window; else $COLUMNS; else 0. */
int terminal_columns(void);

/* Characters that the locale may lack. */
const char *terminal_dot(const struct terminal *terminal);   /* between parts of a line */
const char *terminal_minus(const struct terminal *terminal); /* of a negative number */
const char *terminal_times(const struct terminal *terminal); /* multiplied by */

/* Escapes that begin and end an emphasis; "" without colour. */
const char *terminal_bold(const struct terminal *terminal);
const char *terminal_dim(const struct terminal *terminal);
const char *terminal_plain(const struct terminal *terminal);

/* Prints words in lines of at most `most` columns and ends the last one. The first line continues
 * at `column`, the others begin at `indent`; a longer word gets its own line. */
void terminal_print_words(const char *text, int column, int indent, int most);

/* Adds a bar of `share` (0 to 1) of `width` columns, in eighths of a column if the locale allows,
 * unpadded. */
void terminal_add_bar(const struct terminal *terminal, double share, int width, struct text *out);

#endif
