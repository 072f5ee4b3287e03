/* cli/terminal.h - what stdout can show, and drawing with it. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

/* Indented JSON and a line's end. */
void print_json(const json_t *json);
bool json_was_printed(void);

/* Writes out what is left of stdout. False, with errno, when any of it could not be written. */
bool flush_stdout(void);

struct terminal {
    bool utf8;   /* the locale's encoding is UTF-8 */
    bool colour; /* a terminal, and nobody asked for none (NO_COLOR, TERM=dumb) */
};
struct terminal terminal_of_stdout(void);

/* Columns of the window that stdout shows in; else what $COLUMNS says; 0 when nothing does. */
int terminal_columns(void);

/* Words that the locale may lack. */
const char *terminal_dot(const struct terminal *terminal);   /* between parts of a line */
const char *terminal_minus(const struct terminal *terminal); /* of a negative number */
const char *terminal_times(const struct terminal *terminal); /* multiplied by */

/* Escapes that begin and end an emphasis; "" without colour. */
const char *terminal_bold(const struct terminal *terminal);
const char *terminal_dim(const struct terminal *terminal);
const char *terminal_plain(const struct terminal *terminal);

/* Prints words in lines of at most `most` columns and ends the last one. The first line goes on
 * from `column`, the others begin at `indent`; a longer word has a line of its own. */
void terminal_print_words(const char *text, int column, int indent, int most);

/* A bar of `share` (0 to 1) of `width` columns, in eighths where the locale can, not padded. */
void terminal_add_bar(const struct terminal *terminal, double share, int width, struct text *out);

#endif
