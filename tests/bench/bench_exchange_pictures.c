/* Draws predictions for exchanges: exchange-step.svg has the time per step against nodes and
 * against bandwidth; exchange-wins.svg has the exchange that reaches an accuracy first, for each
 * number of nodes and bandwidth. They are written to the given folder (`make pictures` passes docs)
 * or next to the program. Nothing is timed.
 *
 * The case is GPT-3 1.3B on nodes of 8 V100. Each node is one data rank (tp8) with 16 sequences per
 * step. */
#include "base/length.h"
#include "sim/campaign/time_to_accuracy.h"
#include "sim/engine/simulate.h"
#include "tests/bench/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE = 8, SEQUENCES = 16, MOST_POINTS = 64 };
static const char layout[] = "tp8 mb4 sp recompute=selective dtype=fp16";
static const char model_name[] = "gpt3-1.3b", cluster_name[] = "p3-v100-16g";

static void fail(const struct err *err)
{
    fprintf(stderr, "%s: %s\n", err->where, err->msg);
    exit(1);
}

/* --- predictions -------------------------------------------------------------------------- */

/* One case is a number of nodes, and the bandwidth out of each node. */
struct place {
    int nodes;
    double network_bytes_per_s;
};

struct predicted {
    double step_s, to_accuracy_s;
};

static struct model model_on(int nodes)
{
    struct model model;
    struct err err = { 0 };
    if (!model_load(model_name, &model, &err))
        fail(&err);
    model.batch = SEQUENCES * nodes;
    return model;
}

static struct system system_of(const struct place *place)
{
    struct system system;
    struct err err = { 0 };
    if (!system_load(cluster_name, "megatron-core", NODE * place->nodes, &system, &err))
        fail(&err);
    struct level *network = &system.cluster.levels[1];
    double nics = NODE * network->nics_per_gpu;
    network->channel_bytes_per_s *= place->network_bytes_per_s / (nics * network->bytes_per_s);
    network->bytes_per_s = place->network_bytes_per_s / nics;
    return system;
}

static struct predicted predict(const struct place *place, const char *exchange)
{
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct plan plan;
    char words[128];
    struct system system = system_of(place);
    struct model model = model_on(place->nodes);
    snprintf(words, sizeof words, "%s dp%d%s%s", layout, place->nodes,
             *exchange ? " exchange=" : "", exchange);
    if (!plan_parse(words, &arena, &plan, &err))
        fail(&err);
    struct evaluator *evaluator = evaluator_new(&system, &model);
    struct predicted out = { .step_s = evaluate_step_s(evaluator, &plan) };
    out.to_accuracy_s =
        time_to_accuracy(&convergence_published, &system, &model, &plan, out.step_s).seconds;
    evaluator_free(evaluator);
    system_release(&system);
    arena_release(&arena);
    return out;
}

/* --- time per step ------------------------------------------------------------------------ */

static const char *const shown[] = { "",
                                     "ring",
                                     "ps:1",
                                     "gossip:ring",
                                     "gossip:one-peer",
                                     "gossip:one-peer:combine=beside",
                                     "topk:0.01",
                                     "qsgd:8",
                                     "local:8" };
static const char *const shown_names[] = { "all-reduce",  "ring",     "ps:1",
                                           "gossip:ring", "one-peer", "one-peer, beside",
                                           "topk:0.01",   "qsgd:8",   "local:8" };
enum { NUM_SHOWN = LENGTH(shown) };

struct curves {
    double x[MOST_POINTS], y[NUM_SHOWN][MOST_POINTS];
    int count;
};

static void add_point(struct curves *curves, double x, const struct place *place)
{
    curves->x[curves->count] = x;
    for (int i = 0; i < NUM_SHOWN; i++)
        curves->y[i][curves->count] = predict(place, shown[i]).step_s;
    curves->count++;
}

static void add_curves(struct text *svg, const struct chart_panel *panel,
                       const struct curves *curves)
{
    struct chart_line lines[NUM_SHOWN];
    for (int i = 0; i < NUM_SHOWN; i++)
        lines[i] = (struct chart_line){ shown_names[i], curves->x, curves->y[i], curves->count, i };
    chart_frame(svg, panel);
    chart_lines(svg, panel, lines, NUM_SHOWN);
}

static const double node_ticks[] = { 2, 4, 8, 16, 32, 64, 128, 256 };
static const double gigabit_ticks[] = { 1, 3, 10, 30, 100, 400 };
static const double second_ticks[] = { 1, 2, 5, 10, 20, 50, 100, 200 };
static const double gigabit = 1e9 / 8;
#define TICKS(list) .ticks = (list), .num_ticks = LENGTH(list)

static void draw_steps(const char *folder)
{
    static struct curves by_nodes, by_network; /* too large for a stack */
    struct text svg = { 0 };
    struct chart_axis seconds = { "seconds a step", 0.8, 300, true, TICKS(second_ticks) };
    struct chart_panel nodes = { "Nodes of 25 Gb/s",
                                 64,
                                 64,
                                 300,
                                 360,
                                 { "nodes of 8 GPUs", 2, 256, true, TICKS(node_ticks) },
                                 seconds };
    struct chart_panel network = { "Network of 32 nodes",
                                   560,
                                   64,
                                   300,
                                   360,
                                   { "Gb/s out of a node", 1, 400, true, TICKS(gigabit_ticks) },
                                   seconds };
    for (int n = 2; n <= 256; n *= 2)
        add_point(&by_nodes, n, &(struct place){ n, 25 * gigabit });
    for (double rate = 1; rate <= 401; rate *= pow(400, 1.0 / 16))
        add_point(&by_network, rate, &(struct place){ 32, rate * gigabit });
    chart_begin(&svg, "Time per step against nodes and bandwidth", 1010, 480);
    add_curves(&svg, &nodes, &by_nodes);
    add_curves(&svg, &network, &by_network);
    chart_end(&svg);
    chart_write(&svg, folder, "exchange-step.svg");
    text_release(&svg);
}

/* --- the fastest method ------------------------------------------------------------------- */

enum { MOST_METHODS = 32 };

static int first_at(const struct place *place)
{
    double least_s = HUGE_VAL;
    int first = 0;
    for (int i = 0; i < num_exchange_methods; i++) {
        double to_s = predict(place, exchange_methods[i].tried).to_accuracy_s;
        if (to_s < least_s) {
            least_s = to_s;
            first = i;
        }
    }
    return first;
}

enum { ROWS = 8, COLUMNS = 24 }; /* rows: numbers of nodes, 2 to 256; columns: bandwidths */

struct winners {
    int first[ROWS][COLUMNS];
    int colours[MOST_METHODS]; /* colour of each method that is first in some cell; -1: in none */
    int num_colours;
};

static const double most_gigabits = 400;

static double gigabits_at(double column)
{
    return pow(most_gigabits, column / COLUMNS);
}

static void find_winners(struct winners *winners)
{
    for (int i = 0; i < MOST_METHODS; i++)
        winners->colours[i] = -1;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            struct place place = { 2 << row, gigabits_at(column + 0.5) * gigabit };
            int first = winners->first[row][column] = first_at(&place);
            if (winners->colours[first] < 0)
                winners->colours[first] = winners->num_colours++;
        }
}

static void add_names(struct text *svg, const struct winners *winners)
{
    double y = 84;
    for (int i = 0; i < num_exchange_methods; i++) {
        if (winners->colours[i] < 0)
            continue;
        text_add(svg, "<rect x=\"560\" y=\"%.1f\" width=\"14\" height=\"14\" fill=\"%s\"/>\n",
                 y - 11, chart_colours[winners->colours[i] % CHART_COLOURS]);
        chart_label(svg, "start", 582, y, exchange_methods[i].tried);
        y += 22;
    }
}

static void draw_winners(const char *folder)
{
    static struct winners winners;
    struct text svg = { 0 };
    struct chart_panel panel = {
        "First to all-reduce's accuracy after 300 G tokens",
        64,
        64,
        470,
        360,
        { "Gb/s out of a node", 1, most_gigabits, true, TICKS(gigabit_ticks) },
        { "nodes of 8 GPUs", sqrt(2), 256 * sqrt(2), true, TICKS(node_ticks) }
    };
    find_winners(&winners);
    chart_begin(&svg, "Which exchange is first to an accuracy", 860, 480);
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            double nodes = 2 << row;
            chart_cell(&svg, &panel, gigabits_at(column), gigabits_at(column + 1), nodes / sqrt(2),
                       nodes * sqrt(2), winners.colours[winners.first[row][column]]);
        }
    chart_frame(&svg, &panel);
    add_names(&svg, &winners);
    chart_end(&svg);
    chart_write(&svg, folder, "exchange-wins.svg");
    text_release(&svg);
}

int main(int argc, char **argv)
{
    char folder[4096];
    const char *slash = strrchr(argv[0], '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    draw_steps(argc > 1 ? argv[1] : folder);
    draw_winners(argc > 1 ? argv[1] : folder);
    return 0;
}
