/* cli/main.c - finds the command and handles errors, help and the final flush. */
#include "cli/input/command.h"

#include "base/arena.h"
#include "cli/names/help.h"
#include "cli/print/terminal.h"
#include "cli/views/infeasible.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the argument occurs before "--", after which all are file names. */
static bool has_argument(int argc, char **argv, const char *name, const char *alias)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], name) == 0 || (alias && strcmp(argv[i], alias) == 0))
            return true;
    return false;
}

static int run_command(const struct command *command, int argc, char **argv, struct err *err)
{
    if (has_argument(argc, argv, "--help", "-h")) {
        help_print(command);
        return EXIT_DONE;
    }
    return command->run(argc, argv, err);
}

/* Runs the command. If none is named, as in `simsearch --gpus ...`, argv[0] takes its place. */
static int dispatch(int argc, char **argv, struct err *err)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        bool names_one = argc > 2 && argv[2][0] != '-';
        const struct command *about = names_one ? command_find(argv[2]) : NULL;
        if (names_one && !about) {
            command_refuse(argv[2], err);
            return exit_code_of(err);
        }
        if (about)
            help_print(about);
        else
            help_print_all();
        return argc < 2 ? EXIT_USAGE : EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("simsearch %s\n", SIMSEARCH_VERSION);
        return EXIT_DONE;
    }
    if (argv[1][0] == '-')
        return run_command(&commands[0], argc, argv, err);
    const struct command *command = command_find(argv[1]);
    if (!command) {
        command_refuse(argv[1], err);
        return exit_code_of(err);
    }
    return run_command(command, argc - 1, argv + 1, err);
}

/* Reports that memory is exhausted, without stdio and without allocating. */
_Noreturn static void out_of_memory(size_t bytes)
{
    static const char sentence[] = "simsearch: out of memory\n";
    (void)bytes;
    ssize_t written = write(STDERR_FILENO, sentence, sizeof sentence - 1);
    (void)written;
    _exit(EXIT_FAILED);
}

static void exhausted(size_t bytes)
{
    out_of_memory(bytes);
}

static void *allocate(size_t bytes)
{
    return arena_grow(NULL, bytes);
}

/* Opens standard streams that are closed. Otherwise the next opened file would get their descriptor
 * and receive the printed output. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            _exit(EXIT_FAILED);
}

static void print_error(const struct err *err)
{
    if (*err->where)
        fprintf(stderr, "simsearch: %s: %s\n", err->where, err->msg);
    else
        fprintf(stderr, "simsearch: %s\n", err->msg);
}

/* When the reader has closed the pipe, ends silently as by SIGPIPE. */
static int end_unwritten(int reason)
{
    if (reason == EPIPE) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    fprintf(stderr, "simsearch: standard output: cannot be written: %s\n", strerror(reason));
    return EXIT_FAILED;
}

/* With --json, prints a document even if the command failed before its answer. */
static void print_owed_json(int argc, char **argv, const struct err *err)
{
    if (!has_argument(argc, argv, "--json", NULL) || json_was_printed())
        return;
    json_t *object = json_object();
    add_infeasible_json(object, NULL, err);
    print_json(object);
    json_decref(object);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    signal(SIGPIPE,
           SIG_IGN); /* writing to a closed pipe then fails instead of ending the program */
    arena_on_exhaustion(exhausted);
    json_set_alloc_funcs(allocate, free);
    setlocale(LC_CTYPE, "");

    struct err err = { 0 };
    int code = dispatch(argc, argv, &err);
    if (code == EXIT_NO_PLAN)
        print_owed_json(argc, argv, &err);
    if (err.code != ERR_NONE)
        print_error(&err);
    if (!flush_stdout())
        code = end_unwritten(errno);
    return code;
}
