/* cli/names/completion.h - completion scripts for shells, from the tables of commands and options.
 *
 * `simsearch list completion-bash` prints one; `make install` installs each in the folder of its
 * shell. */
#ifndef CLI_NAMES_COMPLETION_H
#define CLI_NAMES_COMPLETION_H

#include <jansson.h>
#include <stdio.h>

/* Writes a script. `kinds` are the kinds that `list` accepts, as entries. */
typedef void completion_write(FILE *to, const json_t *kinds);
completion_write completion_write_bash, completion_write_zsh, completion_write_fish;

#endif
