/* interchange/shell.h - the training command of a shell script, with its variables put in.
 *
 * A subset of bash: assignments (also of arrays, += and export), quotes, $NAME, ${NAME},
 * ${NAME:-WORD}, ${NAME[@]}, $((sums)), continued lines and comments. Nothing is run: a $(command)
 * stays as it is written, and every branch of an `if` is read as if it were taken. */
#ifndef INTERCHANGE_SHELL_H
#define INTERCHANGE_SHELL_H

#include "interchange/shell_script.h"

/* where = "LINE" on a quote that does not end. A script without a training command has count 0. */
bool shell_read(const char *text, struct arena *arena, struct shell_script *out, struct err *err);

/* Words separated by blanks, quotes around them taken off; lines that begin with # left out. */
void shell_split(const char *text, struct arena *arena, struct shell_command *out);

#endif
