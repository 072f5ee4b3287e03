/* cli/input/command.h - the commands of the program, and its exit codes.
 *
 * Each command lives in cli/NAME.c; `commands` in commands.c lists them. */
#ifndef CLI_INPUT_COMMAND_H
#define CLI_INPUT_COMMAND_H

#include "base/err.h"

#define SIMSEARCH_VERSION "0.1.0"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_PLAN = 3,
    EXIT_INPUT = 4,
    EXIT_TOLERANCE = 5,
    EXIT_MISSING = 6,
    EXIT_DIVERGED = 7,
    EXIT_LOST = 75,
    EXIT_TIME_LIMIT = 124,
    EXIT_INTERRUPTED = 130,
};

/* Commands as bits, for options that several commands take. */
enum {
    COMMAND_SEARCH = 1 << 0,
    COMMAND_SIMULATE = 1 << 1,
    COMMAND_EXPLAIN = 1 << 2,
    COMMAND_VALIDATE = 1 << 3,
    COMMAND_LIST = 1 << 4,
    COMMAND_FIT = 1 << 5,
    COMMAND_RUN = 1 << 6,
    COMMAND_CALIBRATE = 1 << 7,
    COMMAND_DESIGN = 1 << 8,
    COMMAND_PARTITION = 1 << 9,
    COMMAND_IMPORT = 1 << 10,
    COMMAND_EXPORT = 1 << 11,
    COMMAND_LEARN = 1 << 12,
    COMMAND_TUNE = 1 << 13,
    COMMAND_MCP = 1 << 14,
};

/* Runs a command; argv[0] is its name. Returns the exit code. When `err` is set, main prints it as
 * one line on stderr; a command fails by `return exit_code_of(err);`. main handles --help and
 * failures to write to stdout. */
typedef int command_run(int argc, char **argv, struct err *err);

struct command {
    const char *name;
    unsigned bit;         /* COMMAND_... */
    const char *summary;  /* what the command does; printed after "simsearch NAME" */
    const char *examples; /* lines of examples */
    const char *details;  /* lines below the examples; "": none */
    command_run *run;
};

/* The commands, in the order of --help; the first is the default. */
extern const struct command commands[];
extern const int num_commands;
const struct command *command_find(const char *name); /* NULL: the name is unknown */

/* Sets the error for an unknown name, with the nearest known name. Returns false. */
bool command_refuse(const char *name, struct err *err);

command_run cmd_search, cmd_simulate, cmd_explain, cmd_validate, cmd_fit, cmd_calibrate, cmd_run,
    cmd_design, cmd_partition, cmd_export, cmd_import, cmd_learn, cmd_tune, cmd_mcp, cmd_list;

/* The exit code of an error. */
int exit_code_of(const struct err *err);

/* The meaning of an exit code, for help and the reference page. */
struct exit_meaning {
    int code;
    const char *meaning;
};
extern const struct exit_meaning exit_meanings[];
extern const int num_exit_meanings;

#endif
