/* cli/main.c - the commands of the program, and what they share: errors, help, a last flush. */
#include "cli/command.h"

#include "base/arena.h"
#include "base/text.h"
#include "cli/options.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// clang-format off
const struct command commands[] = {
    { "search", COMMAND_SEARCH, "find the best plans for a model on a number of GPUs",
      "  simsearch --gpus 1024 --model 175b\n"
      "  simsearch --gpus 64 --model llama2-70b --cluster dgx-a100-80g -o plan.json\n"
      "  simsearch --gpus 512 --model llama3-70b --fix \"tp8 sp\" --forbid cp --top 10\n"
      "  simsearch --gpus 1024 --model 175b --compare \"tp8 pp16 mb1\" --json\n",
      "The word `search` may be left out when an option comes first.\n",
      cmd_search },
    { "simulate", COMMAND_SIMULATE, "predict step time and memory of one plan",
      "  simsearch simulate --model 175b --gpus 1024 --layout \"tp8 pp16 mb1 sp zero1\"\n"
      "  simsearch simulate plan.json --json\n"
      "  simsearch simulate plan.json --gantt --trace step.json\n"
      "  simsearch simulate plan.json --schedule-text\n",
      "A plan file (search -o) holds the model, cluster and all else; options change parts of it.\n"
      "A plan that exceeds memory is predicted all the same.\n",
      cmd_simulate },
    { "explain", COMMAND_EXPLAIN, "set textbook formulas beside the prediction, or one plan beside another",
      "  simsearch explain --model 175b --gpus 1024 --layout \"tp8 pp16 mb1 sp zero1\"\n"
      "  simsearch explain plan.json\n"
      "  simsearch explain plan.json other.json\n"
      "  simsearch explain plan.json --compare \"tp4 pp8 mb1 sp zero1\"\n"
      "  simsearch explain --from-run \"params=175B tokens=300B gpus=1024 gpu=a100 days=34\"\n"
      "  simsearch explain --partition --model 175b --gpus 1024 --layout \"tp8 pp16 mb1\"\n",
      "",
      cmd_explain },
    { "validate", COMMAND_VALIDATE, "score predictions against measured runs",
      "  simsearch validate\n"
      "  simsearch validate runs.csv --json\n"
      "  simsearch validate runs.csv --source megatron2021 --predictions out.csv --tolerance 0.1\n",
      "Without a file it scores the rows that are shipped; with several, all of them together.\n",
      cmd_validate },
    { "fit", COMMAND_FIT, "find the constants of profiles and stacks from the measured data",
      "  simsearch fit\n"
      "  simsearch fit a100-megatron -o /tmp/fitted\n"
      "  simsearch fit --check\n",
      "calibration/fit.json says which constants are fitted on which rows; without a job's name all\n"
      "of its jobs run. Nothing is written without -o.\n",
      cmd_fit },
    { "calibrate", COMMAND_CALIBRATE, "measure this machine, so that plans for it can be predicted",
      "  simsearch calibrate -o here.json\n"
      "  simsearch calibrate --quick --for tiny -o here.json\n"
      "  simsearch --gpus 2 --model tiny --cluster here.json -o plan.json\n"
      "  simsearch calibrate --refine run.json plan.json -o better.json\n"
      "  simsearch calibrate --convergence run2.json run8.json -o text.json\n"
      "  simsearch calibrate --nccl-tests all_reduce.txt --cluster dgx-h100 -o here.json\n"
      "  simsearch calibrate --osu allgather.txt --cluster dgx-h100 --ranks 16 -o here.json\n",
      "Every core is a rank, and all of them measure at once. The file holds a cluster with its GPU,\n"
      "profile and stack. What nccl-tests or OSU's benchmarks printed becomes part of the profile of\n"
      "--cluster instead.\n",
      cmd_calibrate },
    { "run", COMMAND_RUN, "execute a plan, and hold what was measured against what was predicted",
      "  simsearch run plan.json\n"
      "  simsearch run plan.json --steps 20 --data workshop --trace run.json\n"
      "  simsearch run --model tiny --gpus 2 --layout \"pp2 dtype=fp32\"\n"
      "  simsearch run plan.json --slice --ranks 2 --json\n"
      "  mpirun -n 4 simsearch run plan.json\n",
      "Ranks are processes of this machine, unless mpirun, srun or torchrun has started them.\n",
      cmd_run },
    { "list", COMMAND_LIST, "show what the program knows: models, clusters, layout words ...",
      "  simsearch list\n"
      "  simsearch list models\n"
      "  simsearch list clusters --json\n",
      "",
      cmd_list },
};
const int num_commands = sizeof commands / sizeof *commands;

const struct exit_meaning exit_meanings[] = {
    { EXIT_DONE, "done" },
    { EXIT_FAILED, "failed: no memory, or the output cannot be written" },
    { EXIT_USAGE, "the command line is wrong" },
    { EXIT_NO_PLAN, "no plan is feasible; stdout says why and what would help" },
    { EXIT_INPUT, "a file that was given is wrong; the message names file, line and key" },
    { EXIT_TOLERANCE, "measured runs lie outside --tolerance" },
    { EXIT_MISSING, "a capability is missing" },
    { EXIT_LOST, "a run was interrupted and can be started again" },
    { EXIT_TIME_LIMIT, "the time limit was reached; the best so far was printed" },
    { EXIT_INTERRUPTED, "interrupted (Ctrl-C); the best so far was printed" },
};
const int num_exit_meanings = sizeof exit_meanings / sizeof *exit_meanings;
// clang-format on

const struct command *command_find(const char *name)
{
    for (int i = 0; i < num_commands; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

int exit_code_of(const struct err *err)
{
    switch (err->code) {
    case ERR_NONE:
        return EXIT_DONE;
    case ERR_USAGE:
        return EXIT_USAGE;
    case ERR_INPUT:
        return EXIT_INPUT;
    case ERR_INFEASIBLE:
        return EXIT_NO_PLAN;
    case ERR_UNAVAILABLE:
        return EXIT_MISSING;
    case ERR_SYSTEM:
        return EXIT_FAILED;
    }
    return EXIT_FAILED;
}

static void print_usage(void)
{
    printf("simsearch %s: how to split a model over GPUs, how long a step takes, will it fit\n\n",
           SIMSEARCH_VERSION);
    printf("  simsearch --gpus 1024 --model 175b\n");
    printf("  simsearch simulate --model 175b --gpus 1024 --layout \"tp8 pp16 mb1 sp zero1\"\n\n");
    printf("Commands\n");
    for (int i = 0; i < num_commands; i++)
        printf("  %-10s %s%s\n", commands[i].name, commands[i].summary,
               i == 0 ? " (the default)" : "");
    printf("\nsimsearch COMMAND --help tells the options of each; `man simsearch` tells all.\n");
}

static void print_exit_codes(void)
{
    printf("\nExit codes\n");
    for (int i = 0; i < num_exit_meanings; i++)
        printf("  %3d  %s\n", exit_meanings[i].code, exit_meanings[i].meaning);
}

static void print_help(const struct command *command)
{
    printf("simsearch %s: %s\n\n%s", command->name, command->summary, command->examples);
    if (*command->details)
        printf("\n%s", command->details);
    printf("\nOptions\n");
    options_print_help(command->bit, stdout);
    if (command == &commands[0])
        print_exit_codes();
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static bool refuse_command(const char *name, struct err *err)
{
    const char *names[sizeof commands / sizeof *commands];
    for (int i = 0; i < num_commands; i++)
        names[i] = commands[i].name;
    const char *nearest = text_nearest(name, names, (size_t)num_commands);
    if (nearest)
        return err_set(err, ERR_USAGE, name, "no command is called that; did you mean \"%s\"?",
                       nearest);
    return err_set(err, ERR_USAGE, name,
                   "no command is called that; `simsearch --help` lists them");
}

static int run_command(const struct command *command, int argc, char **argv, struct err *err)
{
    if (asks_for_help(argc, argv)) {
        print_help(command);
        return EXIT_DONE;
    }
    return command->run(argc, argv, err);
}

/* `simsearch --gpus ...` has no command's name: the program's own stands in its place. */
static int dispatch(int argc, char **argv, struct err *err)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        const struct command *about = argc > 2 ? command_find(argv[2]) : NULL;
        if (about)
            print_help(about);
        else
            print_usage();
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
        refuse_command(argv[1], err);
        return exit_code_of(err);
    }
    return run_command(command, argc - 1, argv + 1, err);
}

/* No memory is left, so neither stdio nor anything that allocates. */
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

/* A file that is opened while 0, 1 or 2 is closed would get that number, and what is printed. */
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

int main(int argc, char **argv)
{
    hold_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, which is told */
    arena_on_exhaustion(exhausted);
    json_set_alloc_funcs(allocate, free);
    setlocale(LC_CTYPE, "");

    struct err err = { 0 };
    int code = dispatch(argc, argv, &err);
    if (err.code != ERR_NONE)
        print_error(&err);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "simsearch: standard output: cannot be written: %s\n",
                strerror(errno ? errno : EIO));
        code = EXIT_FAILED;
    }
    return code;
}
