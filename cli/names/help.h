/* cli/names/help.h - what --help prints. */
#ifndef CLI_NAMES_HELP_H
#define CLI_NAMES_HELP_H

#include "cli/input/command.h"

/* The commands, each in a line. */
void help_print_all(void);

/* A command's examples and options. */
void help_print(const struct command *command);

#endif
