/* cli/names/completion.h - completion scripts for shells, from the tables of commands and options.
 *
 * `simsearch list completion-bash` prints one; `make install` puts each where its shell looks. */
#ifndef CLI_NAMES_COMPLETION_H
#define CLI_NAMES_COMPLETION_H

#include <stdio.h>

void completion_write_bash(FILE *to);
void completion_write_zsh(FILE *to);
void completion_write_fish(FILE *to);

#endif
