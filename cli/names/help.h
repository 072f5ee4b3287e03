/* cli/names/help.h - prints --help. */
#ifndef CLI_NAMES_HELP_H
#define CLI_NAMES_HELP_H

#include "cli/input/command.h"

/* Prints the commands, one per line. */
void help_print_all(void);

/* Prints a command's examples and options. */
void help_print(const struct command *command);

#endif
