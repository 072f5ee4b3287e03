/* cli/commands.c - the commands of the program, and their exit codes. */
#include "base/length.h"
#include "cli/input/command.h"

#include "base/text.h"

#include <string.h>

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
      "A plan file (search -o) holds the plan, model, cluster, profile and stack; options replace "
      "its parts.\n"
      "A plan that exceeds memory is predicted too.\n",
      cmd_simulate },
    { "explain", COMMAND_EXPLAIN, "compare a prediction with textbook formulas, or one plan with "
                                  "another",
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
      "Without a file it scores the shipped rows; with several files, all their rows together.\n",
      cmd_validate },
    { "fit", COMMAND_FIT, "find the constants of profiles and stacks from the measured data",
      "  simsearch fit\n"
      "  simsearch fit a100-megatron -o /tmp/fitted\n"
      "  simsearch fit --check\n",
      "calibration/fit.json lists the jobs: which constants are fitted on which rows. Without a job's name\nall jobs run. Nothing is written without -o.\n",
      cmd_fit },
    { "calibrate", COMMAND_CALIBRATE, "measure this machine, so that plans for it can be predicted",
      "  simsearch calibrate -o here.json\n"
      "  simsearch calibrate --quick --for tiny -o here.json\n"
      "  simsearch --gpus 2 --model tiny --cluster here.json -o plan.json\n"
      "  simsearch calibrate --refine run.json plan.json -o better.json\n"
      "  simsearch calibrate --convergence run2.json run8.json -o text.json\n"
      "  simsearch calibrate --nccl-tests all_reduce.txt --cluster dgx-h100 -o here.json\n"
      "  simsearch calibrate --osu allgather.txt --cluster dgx-h100 --ranks 16 -o here.json\n",
      "Each core runs one rank, and all ranks measure at the same time. The file holds a cluster with its GPU,\nprofile and stack. With --nccl-tests or --osu, the output of these benchmarks\nbecomes part of the profile of --cluster instead.\n",
      cmd_calibrate },
    { "run", COMMAND_RUN, "execute a plan, and compare the measurement with the prediction",
      "  simsearch run plan.json\n"
      "  simsearch run plan.json --steps 20 --data workshop --trace run.json\n"
      "  simsearch run --model tiny --gpus 2 --layout \"pp2 dtype=fp32\"\n"
      "  simsearch run plan.json --slice --ranks 2 --json\n"
      "  mpirun -n 4 simsearch run plan.json\n",
      "Ranks are processes of this machine, unless mpirun, srun or torchrun has started them.\n",
      cmd_run },
    { "design", COMMAND_DESIGN, "find the model and the tokens that a budget trains to the lowest "
                                "loss",
      "  simsearch design --gpus 1024 --days 30\n"
      "  simsearch design --gpus 512 --cost 1000000 --tokens 500B --json\n"
      "  simsearch design --gpus 1024 --days 60 --inference 2T -o plan.json\n"
      "  simsearch design --flops 5.76e23\n"
      "  simsearch design --gpus 1024 --flops gpt3-175b\n",
      "Model size and throughput are found by iteration; each size is timed with its best\n"
      "plan. Without --gpus the answer follows from the published laws alone.\n",
      cmd_design },
    { "partition", COMMAND_PARTITION, "find the best sharding of a chain of operators in a file",
      "  simsearch partition chain.json\n"
      "  simsearch partition chain.json --json\n",
      "The file holds the number of ranks, the tokens and the width of the input X, and the "
      "operators: matrix\n"
      "products with their widths, pointwise operators and norms; docs/search.md has its keys. "
      "Costs include\n"
      "forward and backward. Their unit is S (n - 1)/n, where S is the size of X in bytes and n "
      "the number of ranks.\n",
      cmd_partition },
    { "export", COMMAND_EXPORT, "write a plan as the arguments and launch script of a framework",
      "  simsearch export plan.json --to megatron -o plan\n"
      "  simsearch export plan.json --to torchtitan --torchrun -o plan\n"
      "  simsearch export --model 175b --gpus 1024 --layout \"tp8 pp16 mb1 sp zero1\" --to "
      "megatron\n",
      "The folder gets args.txt with an argument on each line, env.sh, a launch script and "
      "plan.json;\n"
      "without -o the arguments are printed. A plan that the framework refuses or cannot express "
      "is not\n"
      "written; the answer names the rules that it breaks and the nearest plan that keeps them.\n",
      cmd_export },
    { "import", COMMAND_IMPORT, "read the command line or configuration of another framework as a "
                                "plan",
      "  simsearch import args.txt --from megatron --gpus 64 -o plan.json\n"
      "  simsearch import train_llama.sh --from megatron --cluster dgx-a100-80g -o plan.json\n",
      "A shell script is read, not run: assignments, quotes and variables are understood, other "
      "commands\n"
      "are not. The answer lists unknown settings and the rules of the framework that the file "
      "breaks.\n",
      cmd_import },
    { "learn", COMMAND_LEARN, "adapt the predictions for a stack to your own runs",
      "  simsearch learn runs.csv -o mine.json\n"
      "  simsearch --gpus 64 --model llama3-70b --learned mine.json\n"
      "  simsearch learn more.csv --learned mine.json -o better.json\n"
      "  simsearch learn plan.json train.log -o mine.json\n",
      "Runs are rows with the columns that `validate` reads, or logs of Megatron-LM, "
      "Megatron-Bridge,\n"
      "torchtitan, DeepSpeed or transformers' Trainer. A plan file or options give the plan of "
      "the logs.\n"
      "Each stack gets one ratio of measured to predicted time; the fewer runs, the closer it "
      "stays to 1. --learned\n"
      "applies it to any prediction.\n",
      cmd_learn },
    { "tune", COMMAND_TUNE, "find the few changes to a framework's job that save the most time",
      "  simsearch tune train_llama.sh --gpus 256\n"
      "  simsearch tune args.txt train.log --gpus 256 --cluster dgx-a100-80g\n"
      "  simsearch tune job.toml --from torchtitan --model llama3-8b --gpus 64 --json\n"
      "  simsearch tune args.txt --gpus 256 --propose -o runs.json\n"
      "  simsearch tune args.txt runs.json --gpus 256 --propose\n",
      "Shows the framework's rules that the job breaks and the settings that cost time, each with a fix.\nCompares the predicted step time with the logged one. Lists the best changes of flags, each with its\ngain, the probability of a gain, and the risk of running out of memory. Broken rules do not change\nthe exit code.\n",
      cmd_tune },
    { "mcp", COMMAND_MCP, "serve the commands as tools of an agent, over stdin and stdout",
      "  simsearch mcp\n",
      "Speaks the Model Context Protocol: one JSON-RPC message a line. The tools are search, "
      "simulate,\n"
      "explain, tune, export, import and list, with the options of each and \"files\"; they answer "
      "with\n"
      "the document of --json. docs/agents.md shows how to register it.\n",
      cmd_mcp },
    { "list", COMMAND_LIST, "list models, clusters, layout words ...",
      "  simsearch list\n"
      "  simsearch list models\n"
      "  simsearch list clusters --json\n",
      "",
      cmd_list },
};
const int num_commands = LENGTH(commands);

const struct exit_meaning exit_meanings[] = {
    { EXIT_DONE, "done" },
    { EXIT_FAILED, "failure: out of memory, or the output cannot be written" },
    { EXIT_USAGE, "the command line is wrong" },
    { EXIT_NO_PLAN, "no plan is feasible; stdout says why and what would help" },
    { EXIT_INPUT, "a given file is invalid; the message names file, line and key" },
    { EXIT_TOLERANCE, "the error on measured runs exceeds --tolerance" },
    { EXIT_MISSING, "something needed is missing here or not supported, such as a GPU, a library "
                    "or a kernel" },
    { EXIT_DIVERGED, "a training run diverged: a loss or a gradient was not finite, or a loss "
                     "exceeded --spike" },
    { EXIT_LOST, "a run was interrupted and can be started again" },
    { EXIT_TIME_LIMIT, "the time limit was reached; the best so far was printed" },
    { EXIT_INTERRUPTED, "interrupted (Ctrl-C); the best so far was printed" },
};
const int num_exit_meanings = LENGTH(exit_meanings);
// clang-format on

const struct command *command_find(const char *name)
{
    for (int i = 0; i < num_commands; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

bool command_refuse(const char *name, struct err *err)
{
    const char *names[LENGTH(commands)];
    for (int i = 0; i < num_commands; i++)
        names[i] = commands[i].name;
    const char *nearest = text_nearest(name, names, (size_t)num_commands);
    if (nearest)
        return err_set(err, ERR_USAGE, name, "there is no such command; did you mean \"%s\"?",
                       nearest);
    return err_set(err, ERR_USAGE, name,
                   "there is no such command; `simsearch --help` lists the commands");
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
    case ERR_DIVERGED:
        return EXIT_DIVERGED;
    case ERR_SYSTEM:
        return EXIT_FAILED;
    }
    return EXIT_FAILED;
}
