/* cli/print/terminal.h - capabilities of the terminal on stdout, and functions that draw on it. */
#ifndef CLI_PRINT_TERMINAL_H
#define CLI_PRINT_TERMINAL_H

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

/* Prints indented JSON and a newline. */
void print_json(const json_t *json);
bool json_was_printed(void);

/* Flushes stdout. False with errno when output could not be written. */
bool flush_stdout(void);

struct terminal {
    bool utf8;   /* the locale's encoding is UTF-8 */
    bool colour; /* stdout is a terminal, and neither NO_COLOR nor TERM=dumb forbids colour */
};
struct terminal terminal_of_stdout(void);

/* Number of columns of stdout's window; else $COLUMNS; else 0. */
int terminal_columns(void);

/* Characters, or replacements if the locale lacks them. */
const char *terminal_dot(const struct terminal *terminal);   /* separates parts of a line */
const char *terminal_minus(const struct terminal *terminal); /* sign of a negative number */
const char *terminal_times(const struct terminal *terminal); /* multiplication sign */

/* Escape sequences that begin and end emphasis; "" without colour. */
const char *terminal_bold(const struct terminal *terminal);
const char *terminal_dim(const struct terminal *terminal);
const char *terminal_plain(const struct terminal *terminal);

/* Prints words in lines of at most `most` columns and ends the last one. The first line continues
 * at `column`, the others begin at `indent`; a word longer than a line gets its own line. */
void terminal_print_words(const char *text, int column, int indent, int most);

/* Adds a bar as long as `share` (0 to 1) of `width` columns, without padding. The bar is drawn in
 * eighths of a column if the locale allows. */
void terminal_add_bar(const struct terminal *terminal, double share, int width, struct text *out);

#endif
