/* interchange/shell.h - finds the training command of a shell script and expands its variables.
 *
 * A subset of bash: assignments (also of arrays, += and export), quotes, $NAME, ${NAME},
 * ${NAME:-WORD}, ${NAME[@]}, $((sums)), continued lines and comments. Nothing is executed: a
 * $(command) is left unchanged, and every branch of an `if` is read as if it were taken. */
#ifndef INTERCHANGE_SHELL_H
#define INTERCHANGE_SHELL_H

#include "interchange/shell_script.h"

/* On an unterminated quote where = "LINE". A script without a training command has count 0. */
bool shell_read(const char *text, struct arena *arena, struct shell_script *out, struct err *err);

/* Splits text into words at blanks, removes quotes around words, and skips lines that begin with
 * #. */
void shell_split(const char *text, struct arena *arena, struct shell_command *out);

#endif
