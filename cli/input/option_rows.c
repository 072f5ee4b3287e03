/* All options: each row drives parsing, bounds, --help and the reference page. */
#include "base/length.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "search/search.h"
#include "sim/campaign/scaling.h"
#include "sim/campaign/shape.h"
#include "sim/engine/event_step.h"
#include "sim/plan/plan.h"

#include <limits.h>
#include <stddef.h>

#define SEARCH    COMMAND_SEARCH
#define SIMULATE  COMMAND_SIMULATE
#define EXPLAIN   COMMAND_EXPLAIN
#define VALIDATE  COMMAND_VALIDATE
#define LIST      COMMAND_LIST
#define FIT       COMMAND_FIT
#define RUN       COMMAND_RUN
#define CALIBRATE COMMAND_CALIBRATE
#define DESIGN    COMMAND_DESIGN
#define PARTITION COMMAND_PARTITION
#define IMPORT    COMMAND_IMPORT
#define EXPORT    COMMAND_EXPORT
#define LEARN     COMMAND_LEARN
#define TUNE      COMMAND_TUNE
#define PREDICTS  (SEARCH | SIMULATE | EXPLAIN | RUN | DESIGN)
#define CONVERTS  (IMPORT | EXPORT)
#define ALL       (PREDICTS | VALIDATE | LIST | FIT | CALIBRATE | PARTITION | LEARN | TUNE | CONVERTS)

enum { LONGEST_SEQ = 100000000, MOST_JOBS = 1024, MOST_BUDGET = 1000000000 };

#define F(member)      .offset = offsetof(struct options, member)
#define TEXT(member)   .kind = FIELD_OTHER, F(member)
#define SWITCH(member) .kind = FIELD_BOOL, F(member)

const char *const graphs_names[] = { "auto", "on", "off", NULL };

// clang-format off
const struct option_row option_rows[] = {
    { "--gpus", NULL, "N", PREDICTS | CONVERTS | TUNE | LEARN,
      { "gpus", .kind = FIELD_INT, F(gpus), .min = 1, .max = MOST_GPUS,
        .doc = "GPUs to use: whole nodes, or a part of one node." } },
    { "--nodes", NULL, "N", PREDICTS | CONVERTS | TUNE,
      { "nodes", .kind = FIELD_INT, F(nodes), .min = 1, .max = MOST_GPUS,
        .doc = "Number of hosts to use, instead of --gpus; a host of dgx-h100 has 8 GPUs, one of "
               "gb200-nvl72 has 4." } },
    { "--model", NULL, "MODEL", PREDICTS | CONVERTS | TUNE | LEARN,
      { "model", TEXT(model),
        .doc = "A preset (`list models`), a preset-style file, or a Hugging Face config.json "
               "or the folder that holds it."
               "[design]Gives the style: everything except layers, width and heads; llama2-7b when "
               "not given." } },
    { "--cluster", NULL, "CLUSTER", PREDICTS | VALIDATE | CALIBRATE | LEARN | CONVERTS | TUNE,
      { "cluster", TEXT(cluster),
        .doc = "A preset (`list clusters`) or a file; dgx-h100 when not given. For the name of a "
               "GPU (h100) the first preset with this GPU is used, and the answer says so." } },
    { "--gpu", NULL, "GPU", PREDICTS | CONVERTS | TUNE | LEARN,
      { "gpu", TEXT(gpu), .doc = "Uses the first cluster preset that has this GPU." } },
    { "--stack", NULL, "STACK", PREDICTS | VALIDATE | LEARN | CONVERTS | TUNE,
      { "stack", TEXT(stack),
        .doc = "The software family (`list stacks`) or a file."
               "[search]When not given: the default stack of the cluster; else, with --backend, the "
               "executor's; else megatron-core."
               "[simulate explain validate]When not given: the default of the cluster, else megatron-core."
               "[run]The executor's own when not given."
               "[import tune]The framework's own when not given." } },
    { "--batch", "--gbs", "B", PREDICTS | CONVERTS | TUNE | LEARN,
      { "batch", TEXT(batch),
        .doc = "Global batch in sequences (1536, 1536seq), or in tokens (3.2Mtok)."
               "[search simulate explain run]The model's usual one when not given."
               "[design]When not given, 0.2920 C^0.3271 tokens for C FLOPs (DeepSeek LLM, 2024)." } },
    { "--seq", NULL, "TOKENS", PREDICTS | CONVERTS | TUNE | LEARN,
      { "seq", .kind = FIELD_INT, F(seq), .min = 1, .max = LONGEST_SEQ,
        .quantity = QUANTITY_TOKENS,
        .doc = "Sequence length (8k is 8192); the model's usual one when not given." } },
    { "--documents", NULL, "FILE|mean=M,cv=C", PREDICTS,
      { "documents", TEXT(documents),
        .doc = "Lengths of the documents packed into a sequence, which do not attend to each "
               "other: a file with a length on each line, or their mean and relative standard "
               "deviation (mean=8k,cv=1); one document per sequence when not given. `run` rejects "
               "it, as its kernels have no such attention mask." } },
    { "--routing", NULL, "balanced|random|cv=C|factor=F|in-turn", PREDICTS,
      { "routing", TEXT(routing),
        .doc = "Spread of tokens over experts. balanced, when not given: equal loads. random: "
               "experts are chosen at random. cv=C: the standard deviation of the experts' "
               "popularity is C times its mean. factor=F: the most loaded rank has F times the "
               "mean load. in-turn: tokens get neighbouring experts in turn without a router, as "
               "in benchmarks with a fake gate." } },
    { "--dispatcher", NULL, "D", PREDICTS,
      { "dispatcher", .kind = FIELD_NAME, .names = dispatcher_names, F(dispatcher),
        .doc = "Library that sends tokens to the ranks of their experts: alltoall, allgather, "
               "deepep or hybridep; the stack's when not given." } },
    { "--quantized-dispatch", NULL, NULL, PREDICTS,
      { "quantized_dispatch", SWITCH(quantized_dispatch),
        .doc = "With fp8, mxfp8 or nvfp4, tokens are quantised before they are sent to their "
               "experts, as DeepSeek-V3 does; the experts' outputs are sent back in 16 bits." } },
    { "--tokens", NULL, "T", PREDICTS,
      { "tokens", .kind = FIELD_QUANTITY, .quantity = QUANTITY_TOKENS, F(tokens), .min = 1,
        .max = 1e18,
        .doc = "[search simulate explain run]Tokens to train on (300B or 300Btok); with them the "
               "answer states days and dollars.[design]Number of different tokens that exist "
               "(1T); training on more repeats tokens, and repeats count less. Unlimited when not "
               "given." } },
    { "--days", NULL, "D", DESIGN,
      { "days", .kind = FIELD_NUMBER, F(design.days), .min = 1e-3, .max = 1e5,
        .doc = "Days for which all GPUs train." } },
    { "--cost", NULL, "$", DESIGN,
      { "cost", .kind = FIELD_NUMBER, F(design.cost), .min = 1, .max = 1e12,
        .doc = "Dollars for all GPU hours; with --days, the limit that is reached first counts." } },
    { "--flops", NULL, "C", DESIGN,
      { "flops", TEXT(design.flops),
        .doc = "FLOPs to spend (5.76e23), instead of --days; a model's name stands for the FLOPs of its training, 6 per parameter and token." } },
    { "--inference", NULL, "T", DESIGN,
      { "inference", .kind = FIELD_QUANTITY, .quantity = QUANTITY_TOKENS, F(design.served_tokens),
        .min = 1, .max = 1e18,
        .doc = "Tokens that the model will serve (2T), paid from the same budget; serving a token "
               "takes a third of the FLOPs of training on one." } },
    { "--law", NULL, "LAW", DESIGN,
      { "law", .kind = FIELD_NAME, .names = loss_law_names, F(design.law),
        .doc = "Loss law that determines size and tokens; corrected (Besiroglu et al. 2024) when "
               "not given." } },
    { "--aspect", NULL, "A", DESIGN,
      { "aspect", .kind = FIELD_NAME, .names = aspect_names, F(design.aspect),
        .doc = "Number of layers for a width: gpt3: width / 128; levine: the law of Levine et al. 2020. gpt3 when not given." } },
    { "--precision", NULL, "P", PREDICTS | CONVERTS,
      { "precision", .kind = FIELD_NAME, .names = precision_names, F(precision),
        .doc = "Data type of matrix products, as in the layout's dtype=." } },
    { "--optimizer", NULL, "O", PREDICTS | CONVERTS,
      { "optimizer", .kind = FIELD_NAME, .names = optimizer_names, F(optimizer),
        .doc = "The optimizer and the data types of its state." } },
    { "--train", NULL, "WHAT", SEARCH | SIMULATE | EXPLAIN,
      { "train", TEXT(train),
        .doc = "Weights to train: lora:R or lora:R:NAMES, adapters of rank R for all linear layers "
               "of blocks or for the named ones; last:N, the last N blocks and the head; or names "
               "of weights, with * (\"*norm,logits\"). All when not given." } },
    { "--reference", NULL, NULL, SEARCH | SIMULATE | EXPLAIN,
      { "reference", SWITCH(reference),
        .doc = "Also runs the forward of an untrained copy of the model over each batch; with "
               "adapters the copy is the model without them." } },
    { "--reserve", NULL, "M", SEARCH | SIMULATE | EXPLAIN,
      { "reserve", .kind = FIELD_QUANTITY, .quantity = QUANTITY_BYTES, F(reserve_bytes), .min = 1,
        .max = 1e18, .doc = "Memory of each GPU that other programs hold, such as an inference "
                            "engine (\"20 GiB\")." } },
    { "--layout", NULL, "LAYOUT", SIMULATE | EXPLAIN | RUN | EXPORT | LEARN,
      { "layout", TEXT(layout), .doc = "The plan as text: \"tp8 pp16 mb1 sp zero1\"." } },
    { "--compare", NULL, "LAYOUT", SEARCH | EXPLAIN,
      { "compare", TEXT(search.compare),
        .doc = "[search]Shows the rank of another layout, and how much slower than the best it "
               "is.[explain]Compares with another layout, by parts of the step time and memory." } },
    { "--partition", NULL, NULL, EXPLAIN,
      { "partition", SWITCH(partition),
        .doc = "Shows how a layer's operators are best split over the plan's tensor ranks, "
               "and the saving over Megatron's split and others." } },
    { "--from-run", NULL, "WORDS", EXPLAIN,
      { "from-run", TEXT(from_run),
        .doc = "A published run instead of a plan: \"params=175B tokens=300B gpus=1024 gpu=a100 "
               "days=34\" gives the utilization U, at 8 FLOPs per token and parameter (with full "
               "recompute) and at 6 (without); u=0.45 instead of days= gives the days." } },
    { "--fix", NULL, "WORDS", SEARCH | DESIGN,
      { "fix", TEXT(search.fix), .doc = "Layout words that every plan must have: \"tp8 zero1\"." } },
    { "--forbid", NULL, "WORDS", SEARCH | DESIGN,
      { "forbid", TEXT(search.forbid),
        .doc = "Layout words that no plan may have (\"tp8 sp\"); the name of an axis (cp) forbids to "
               "split over it." } },
    { "--space", NULL, "SPACE", SEARCH | DESIGN,
      { "space", .kind = FIELD_NAME, .names = search_space_names, F(search.space),
        .doc = "Ways to divide the layers over stages. even: equal chunks. megatron, when not given: "
               "also the embedding or the loss counted as a layer, nearly equal chunks, or fewer "
               "layers on the last stage. all: also --uneven, --recompute-mixes and --placement." } },
    { "--uneven", NULL, NULL, SEARCH | DESIGN,
      { "uneven", SWITCH(search.uneven),
        .doc = "Also divides the layers unevenly over stages if embedding, head or memory make that "
               "faster. A stage's layers are assigned to its chunks in turn, so that all chunks of "
               "the stage take about the same time." } },
    { "--recompute-modules", NULL, "PARTS", SEARCH | DESIGN,
      { "recompute-modules", .kind = FIELD_NAME, .names = parts_space_names, F(search.recompute_modules),
        .doc = "The modules of a block that selective recompute repeats. core: core attention. "
               "all: for each plan the set of modules that makes it fastest, among the sets that "
               "fit (recompute=selective:...). When not given: all with the stacks megatron-core, "
               "megatron-bridge and nemo; core with other stacks, and with --pareto and "
               "--objective memory." } },
    { "--recompute-mixes", NULL, NULL, SEARCH | DESIGN,
      { "recompute-mixes", SWITCH(search.recompute_mixes),
        .doc = "Lets each 1f1b stage recompute a different number of layers (recompute=block), or "
               "different modules (recompute=selective:mlp,none)." } },
    { "--certificate", NULL, "FILE", SEARCH,
      { "certificate", TEXT(search.certificate),
        .doc = "Writes a proof that no plan of the space is faster than the best, or that none is "
               "feasible. For each family of similar plans it states a lower bound of all step "
               "times; or, plan by plan, a lower bound, the step time, or the memory if the plan "
               "does not fit." } },
    { "--stage-types", NULL, "Q", SEARCH,
      { "stage-types", .kind = FIELD_INT, F(search.stage_types), .min = 1, .max = MOST_GPUS,
        .doc = "With the method milp: maximum number of stage types; stages of one type have the "
               "same numbers of layers and of recomputed layers." } },
    { "--same-recompute", NULL, NULL, SEARCH,
      { "same-recompute", SWITCH(search.same_recompute),
        .doc = "With the method milp: all stages recompute the same number of layers, or all "
               "of their layers." } },
    { "--host-memory", NULL, "M", SEARCH,
      { "host-memory", .kind = FIELD_QUANTITY, .quantity = QUANTITY_BYTES, F(search.host_memory_bytes),
        .min = 1, .max = 1e18,
        .doc = "With the method milp: a node's host memory for offloaded data (\"1 TiB\")." } },
    { "--placement", NULL, NULL, SEARCH | DESIGN,
      { "placement", SWITCH(search.placement),
        .doc = "Also searches all rank orders other than Megatron's." } },
    { "--method", NULL, "METHOD", SEARCH,
      { "method", TEXT(search.method), .doc = "How to search (`list methods`); bnb when not given." } },
    { "--budget", NULL, "N", SEARCH,
      { "budget", .kind = FIELD_INT, F(search.budget), .min = 1, .max = MOST_BUDGET,
        .doc = "Number of plans that the methods zo, rl and random may evaluate; 10,000 when not "
               "given." } },
    { "--seed", NULL, "N", SEARCH | SIMULATE | RUN,
      { "seed", .kind = FIELD_INT, F(seed), .min = 1, .max = INT_MAX,
        .doc = "The same seed gives the same answer."
               "[search]Seeds zo, rl, random and --robust."
               "[simulate]Seeds --draws."
               "[run]Seeds weights, tokens and dropout." } },
    { "--top", NULL, "K", SEARCH,
      { "top", .kind = FIELD_INT, F(top), .min = 1, .max = MAX_TOP,
        .doc = "Number of plans to show; 5 when not given. The table joins plans with the same TP, CP, PP and micro-batch in one row; JSON lists each plan." } },
    { "--objective", NULL, "O", SEARCH,
      { "objective", .kind = FIELD_NAME, .names = objective_names, F(search.objective),
        .doc = "The best plan has the shortest step (time), the cheapest run (cost), the least "
               "memory (memory), or the shortest training to all-reduce's accuracy, also over "
               "gradient exchanges (time-to-accuracy)." } },
    { "--max-memory", NULL, "M", SEARCH | DESIGN,
      { "max-memory", .kind = FIELD_QUANTITY, .quantity = QUANTITY_BYTES, F(max_memory_bytes),
        .min = 1, .max = 1e18,
        .doc = "Memory of a GPU that a plan may use (\"60 GiB\"), if less than it has." } },
    { "--oom-risk", NULL, "X", SEARCH | DESIGN | TUNE,
      { "oom-risk", .kind = FIELD_NUMBER, F(search.oom_risk), .min = 0.001, .max = 1,
        .doc = "Recommends plans that run out of memory with at most this probability; 0.05 "
               "when not given. 0.5 or more accepts all plans that are predicted to fit." } },
    { "--price", NULL, "P", PREDICTS,
      { "price", .kind = FIELD_QUANTITY, .quantity = QUANTITY_DOLLARS_PER_HOUR, F(price),
        .min = 0, .max = 1e9, .doc = "Price of one GPU in $/h (2.5); the cluster's price when not given." } },
    { "--pareto", NULL, NULL, SEARCH,
      { "pareto", SWITCH(search.pareto),
        .doc = "Shows the plans for which no other plan is better in GPUs, step time and memory at "
               "once, for common numbers of GPUs up to --gpus." } },
    { "--deadline", NULL, "T", SEARCH,
      { "deadline", .kind = FIELD_QUANTITY, .quantity = QUANTITY_SECONDS, F(search.deadline_s), .min = 1,
        .max = 1e11, .doc = "Finds the fewest GPUs, at most --gpus, that train on all tokens in "
                            "this time (30d, 2w), failures and checkpoints included, and searches "
                            "on them." } },
    { "--largest", NULL, "FAMILY", SEARCH,
      { "largest", TEXT(search.largest),
        .doc = "Searches for the largest preset of a family (gpt3, llama) that fits the GPUs. `layers`: gives --model as many layers as fit." } },
    { "--robust", NULL, "X|region", SEARCH,
      { "robust", TEXT(search.robust_words),
        .doc = "Shows how often the best plan stays the best if each kind of cost deviates by up "
               "to this share (0.1), and the smallest deviation that makes another plan the best. "
               "\"region\": proves in which share of the 90 % confidence region of the fitted constants it stays "
               "the best." } },
    { "--time-limit", NULL, "T", SEARCH | DESIGN,
      { "time-limit", .kind = FIELD_QUANTITY, .quantity = QUANTITY_SECONDS, F(search.time_limit_s),
        .min = 1e-3, .max = 1e9,
        .doc = "Ends the search early (10s) and prints the best plan so far and how much faster "
               "another plan could be." } },
    { "--jobs", "-j", "N", SEARCH | DESIGN | VALIDATE | FIT | LEARN | TUNE,
      { "jobs", .kind = FIELD_INT, F(jobs), .min = 1, .max = MOST_JOBS,
        .doc = "Threads; one per core when not given. The answer does not depend on it." } },
    { "--learned", NULL, "FILE", PREDICTS | VALIDATE | LEARN | TUNE | CONVERTS,
      { "learned", TEXT(learned),
        .doc = "Applies the corrections in a file of `learn -o`: a factor on all times of a stack, "
               "and a narrower interval."
               "[learn]Continues from these corrections." } },
    { "--propose", NULL, NULL, TUNE,
      { "propose", SWITCH(propose),
        .doc = "Also lists two or three short runs, on few GPUs, whose times would most help to "
               "choose among the changes. -o writes them to a file; fill in the measured times and "
               "give the file together with the logs." } },
    { "--predictions", NULL, "FILE", VALIDATE,
      { "predictions", TEXT(fit.predictions), .doc = "Writes each row's prediction to a CSV file." } },
    { "--tolerance", NULL, "X", VALIDATE,
      { "tolerance", .kind = FIELD_NUMBER, F(fit.tolerance), .min = 0, .max = 100,
        .doc = "Exits with code 5 when the median error of a source of dense models is above this "
               "(0.1 is 10 %)." } },
    { "--source", NULL, "KEY", VALIDATE,
      { "source", TEXT(fit.source), .doc = "Scores only the rows with this source_key." } },
    { "--why", NULL, NULL, VALIDATE,
      { "why", SWITCH(fit.why),
        .doc = "Shows possible causes of errors: parts of the step, and constants whose change "
               "would explain the errors." } },
    { "--report", NULL, "PREFIX", VALIDATE,
      { "report", TEXT(fit.report), .doc = "Writes a report on accuracy to PREFIX.md and PREFIX.svg." } },
    { "--run", NULL, NULL, SEARCH,
      { "run", SWITCH(run),
        .doc = "Runs the best plan at once and compares it with its prediction; --json prints "
               "only the comparison." } },
    { "--steps", NULL, "N", RUN | SEARCH,
      { "steps", .kind = FIELD_INT, F(training.steps), .min = 1, .max = 1000000,
        .doc = "Training steps; 10 when not given. The first two are not timed." } },
    { "--ranks", NULL, "N", RUN | CALIBRATE,
      { "ranks", .kind = FIELD_INT, F(training.ranks), .min = 1, .max = MOST_GPUS,
        .doc = "[run]Processes to start: one per rank of the plan, or fewer with "
               "--slice.[calibrate]Processes that measure, one per core when not given; with "
               "--osu, the number of ranks of the benchmark." } },
    { "--quick", NULL, NULL, CALIBRATE,
      { "quick", SWITCH(calibration.quick),
        .doc = "Measures fewer shapes, sizes and repeats: takes about one minute instead of four, "
               "on GPUs two instead of eight. If other programs run, shapes are left out, and the "
               "file says so." } },
    { "--for", NULL, "NAME", SEARCH | CALIBRATE,
      { "for", TEXT(calibration.for_model),
        .doc = "[search]Searches only plans that this framework can run (`list targets`), on its "
               "stack.[calibrate]Also measures the shapes of this model's ops." } },
    { "--refine", NULL, "RUN.json", CALIBRATE,
      { "refine", TEXT(calibration.refine),
        .doc = "Scales the profile of the following plan file, for each kind of op, to the times "
               "measured by `run --json`. A run that got less than 80 % of its cores' time is "
               "rejected." } },
    { "--convergence", NULL, "FILE", SEARCH | SIMULATE | CALIBRATE,
      { "convergence", TEXT(accuracy.convergence),
        .doc = "[search simulate]Uses the convergence constants of this file instead of the "
               "shipped ones.[calibrate]Fits the convergence constants to this file of `run "
               "--json` and to the files that follow." } },
    { "--least", NULL, "L", CALIBRATE,
      { "least", .kind = FIELD_NUMBER, F(accuracy.least), .min = 0, .max = 1e9,
        .doc = "For --convergence: the lowest possible loss; fitted when not given." } },
    { "--heterogeneity", NULL, "H", CALIBRATE,
      { "heterogeneity", .kind = FIELD_NUMBER, F(accuracy.heterogeneity), .min = 0, .max = 0.999,
        .doc = "For --convergence: the share of the variance between ranks' gradients that comes "
               "from different data on each rank; 0, as for shuffled data, when not given." } },
    { "--nccl-tests", NULL, NULL, CALIBRATE,
      { "nccl-tests", SWITCH(calibration.nccl_tests),
        .doc = "Reads collectives from files that nccl-tests printed." } },
    { "--osu", NULL, NULL, CALIBRATE,
      { "osu", SWITCH(calibration.osu),
        .doc = "Reads collectives from files that the OSU micro-benchmarks printed." } },
    { "--slice", NULL, NULL, RUN,
      { "slice", SWITCH(training.slice),
        .doc = "Runs a part of the plan on --ranks ranks: the same shapes with fewer stages, "
               "layers and replicas, compared with the prediction of that part." } },
    { "--data", NULL, "TEXT", RUN | SEARCH,
      { "data", TEXT(training.data),
        .doc = "Trains on the bytes of a shipped text (`list texts`) or of a file; on random "
               "tokens "
               "when not given." } },
    { "--rate", NULL, "R", RUN | SEARCH,
      { "rate", .kind = FIELD_NUMBER, F(training.rate), .min = 0, .max = 1e6,
        .doc = "The learning rate, or its peak; 0.001 when not given." } },
    { "--lr-warmup", "--lr-warmup-iters", "N", RUN | SEARCH,
      { "lr-warmup", .kind = FIELD_INT, F(training.lr_warmup), .min = 0, .max = 1000000000,
        .doc = "Steps in which the learning rate rises linearly from 0 to its peak." } },
    { "--lr-decay", "--lr-decay-iters", "N", RUN | SEARCH,
      { "lr-decay", .kind = FIELD_INT, F(training.lr_decay), .min = 0, .max = 1000000000,
        .doc = "The step, counted from the first, at which a cosine has lowered the rate to "
               "--min-lr; no decay with 0 or when not given." } },
    { "--min-lr", NULL, "R", RUN | SEARCH,
      { "min-lr", .kind = FIELD_NUMBER, F(training.least_rate), .min = 0, .max = 1e6,
        .doc = "The learning rate at the end of --lr-decay; 0 when not given." } },
    { "--clip", "--clip-grad", "X", RUN | SEARCH,
      { "clip", .kind = FIELD_NUMBER, F(training.clip), .min = 0, .max = 1e9,
        .doc = "Scales gradients down to this norm, taken over the whole model. 1 when not given; "
               "with 0 gradients are never scaled." } },
    { "--spike", NULL, "X", RUN | SEARCH,
      { "spike", .kind = FIELD_NUMBER, F(training.spike), .min = 0, .max = 1e6,
        .doc = "Stops with exit code 7 if a loss is more than X standard deviations above the mean "
               "of about the last 50 losses; never with 0 or when not given." } },
    { "--hostile", NULL, "N:KIND:X", RUN,
      { "hostile", TEXT(training.hostile),
        .doc = "Lets N random data ranks send wrong gradients: flip (-X times the gradient), noise "
               "(normal random numbers of X times its size) or silence (zeros); X is 10 when not "
               "given. exchange=median, trimmed, krum and geomedian "
               "tolerate some." } },
    { "--checkpoint", NULL, "DIR", RUN,
      { "checkpoint", TEXT(training.checkpoint),
        .doc = "Saves a checkpoint in this folder after the last step; the newest two checkpoints "
               "are kept." } },
    { "--checkpoint-every", NULL, "N", RUN,
      { "checkpoint_every", .kind = FIELD_INT, F(training.checkpoint_every), .min = 1, .max = 1000000,
        .doc = "Also saves after every N steps." } },
    { "--resume", NULL, NULL, RUN,
      { "resume", SWITCH(training.resume),
        .doc = "Continues from the newest complete checkpoint of --checkpoint, on this layout or "
               "another; --rate, --clip and other training options override the saved values." } },
    { "--backend", NULL, "NAME", RUN | SEARCH | CALIBRATE,
      { "backend", TEXT(training.backend), .doc = "The backend that runs the plan: host, the "
                                                  "default, or cuda." } },
    { "--comm", NULL, "NAME", RUN | SEARCH,
      { "comm", TEXT(training.comm),
        .doc = "Communication between ranks: tcp, or mpi, which mpirun implies; on cuda: nccl, or "
               "staged through the host's memory." } },
    { "--graphs", NULL, "WHEN", RUN | SEARCH,
      { "graphs", .kind = FIELD_NAME, .names = graphs_names, F(training.graphs),
        .doc = "Captures a chunk's passes once and then launches them as graphs. auto: only on "
               "cuda with one pipeline stage. Plans with tensor ranks, ZeRO-2 or ZeRO-3 never use "
               "graphs." } },
    { "--watchdog", NULL, "T", RUN | SEARCH,
      { "watchdog", .kind = FIELD_QUANTITY, .quantity = QUANTITY_SECONDS, F(training.watchdog_s),
        .min = 0.01, .max = 1e9,
        .doc = "Ends a run that makes no progress for this time (30s) with exit code 75; each rank "
               "prints the instruction in which it waits. 60 s when not given." } },
    { "--schedule-text", NULL, NULL, SIMULATE,
      { "schedule-text", SWITCH(schedule_text),
        .doc = "Prints the instruction list of every stage instead of a prediction." } },
    { "--check", NULL, NULL, FIT,
      { "check", SWITCH(fit.check),
        .doc = "Writes nothing; names the shipped files that would change, and exits with 1 "
               "if any would." } },
    { "--leave-out", NULL, "SOURCE", FIT,
      { "leave-out", TEXT(fit.leave_out),
        .doc = "Fits without the rows of this source and scores them; all: leaves out each source "
               "in turn." } },
    { "--table", NULL, "FILE", FIT,
      { "table", TEXT(fit.table), .doc = "Table of jobs, instead of calibration/fit.json." } },
    { "--gantt", NULL, NULL, SIMULATE,
      { "gantt", SWITCH(gantt),
        .doc = "Draws the passes of each stage over the time of a step, and shows the event "
               "engine's step time." } },
    { "--trace", NULL, "FILE", SIMULATE | RUN,
      { "trace", TEXT(trace),
        .doc = "Writes the step's timeline for Perfetto (ui.perfetto.dev): a process per "
               "stage, a thread per lane." } },
    { "--draws", NULL, "N", SIMULATE,
      { "draws", .kind = FIELD_INT, F(draws), .min = 1, .max = MOST_DRAWS,
        .doc = "Simulates the step N times with the event engine, with random variation of chips, "
               "passes and transfers, and shows the median and the 90th percentile." } },
    { "--from", NULL, "TARGET", IMPORT | TUNE,
      { "from", TEXT(conversion.from), .doc = "The framework of the file (`list targets`)."
               "[tune]megatron when not given." } },
    { "--to", NULL, "TARGET", EXPORT,
      { "to", TEXT(conversion.to), .doc = "The framework to write for (`list targets`)." } },
    { "--slurm", NULL, NULL, EXPORT,
      { "slurm", SWITCH(conversion.slurm),
        .doc = "Writes train.sbatch for Slurm, the default for several nodes." } },
    { "--torchrun", NULL, NULL, EXPORT,
      { "torchrun", SWITCH(conversion.torchrun),
        .doc = "Writes train.sh, which torchrun starts on each node." } },
    { "--output", "-o", "FILE", SEARCH | SIMULATE | DESIGN | FIT | CALIBRATE | CONVERTS | LEARN | TUNE,
      { "output", TEXT(output),
        .doc = "[search simulate design import]Writes the plan file; - is standard output."
               "[calibrate]Writes the cluster file; - is standard output."
               "[fit]Writes the profiles and stacks into this folder."
               "[export]Writes the files into this folder."
               "[tune]Writes the runs of --propose, with room for their times; - is standard "
               "output." } },
    { "--json", NULL, NULL, ALL,
      { "json", SWITCH(json), .doc = "Prints one JSON document and nothing else." } },
    { "--quiet", "-q", NULL, ALL,
      { "quiet", SWITCH(quiet), .doc = "Prints only the answer itself." } },
    { "--verbose", "-v", NULL, ALL,
      { "verbose", SWITCH(verbose), .doc = "Shows more: all stages, sources." } },
};
// clang-format on
const int num_option_rows = LENGTH(option_rows);
