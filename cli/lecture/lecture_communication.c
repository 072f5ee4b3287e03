/* cli/lecture/lecture_communication.c - the lecture's rows about communication of tensor and data
 * ranks. */
#include "cli/lecture/lecture.h"

#include "sim/engine/data_parallel.h"
#include "sim/plan/state_share.h"

#include <math.h>
#include <string.h>

static const char topic[] = "COMMUNICATION";

/* Writes the time of one message: "(alpha + S/(n B))". */
static void fill_part(struct text *out, const struct textbook_link *link, int ranks, double bytes)
{
    text_add(out, "(%s + %s / (%d x %s))", in_seconds(link->latency_s).text, in_bytes(bytes).text,
             ranks, in_bytes_per_s(link->bytes_per_s).text);
}

static void add_tensor(struct lecture *lecture, const struct lecture_case *of)
{
    const struct textbook_setup *textbook = of->textbook;
    if (textbook->tensor == 1)
        return;
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = topic,
                                          .name = "tensor ranks",
                                          .unit = LECTURE_SECONDS,
                                          .textbook = of->estimate->tensor_comm_s,
                                          .detailed = of->prediction->time.tensor_comm_s },
                    textbook->recomputed > 0 ? "m l/p (4 + 2 r) 2 (t - 1) (alpha + w s b h/(t B))"
                                             : "m l/p x 4 x 2 (t - 1) (alpha + w s b h/(t B))");
    text_add(&row->filled, "%.0f x %d / %d x %.4g x 2 x (%d - 1) x ", of->estimate->microbatches,
             textbook->model->layers, textbook->pipeline, 4 + 2 * textbook->recomputed,
             textbook->tensor);
    fill_part(&row->filled, &textbook->tensor_link, textbook->tensor,
              textbook_boundary_bytes(textbook));
    lecture_gap(row,
                "The detailed value is the exposed time of collectives, at the profile's rates.");
}

/* --- data ranks ----------------------------------------------------------------------------- */

static const char *const phase_formulas[NUM_PHASE_KINDS] = {
    [PHASE_ALL_REDUCE] = "2 (n - 1) (alpha + S/(n B))",
    [PHASE_RING] = "2 (n - 1) (alpha + S/(n B))",
    [PHASE_TREE] = "2 ceil(log2 n) alpha + 2 S/B",
    [PHASE_SERVERS] = "2 (n - 1) S/(K B)",
    [PHASE_REDUCE_SCATTER] = "(n - 1) (alpha + S/(n B))",
    [PHASE_ALL_GATHER] = "(n - 1) (alpha + S/(n B))",
    [PHASE_ALL_TO_ALL] = "(n - 1) (alpha + S/(n B))",
    [PHASE_PEERS] = "d (alpha + S/B)",
};

static void fill_phase(struct text *out, const struct textbook_link *link,
                       const struct exchange_phase *phase)
{
    const struct lecture_number alpha = in_seconds(link->latency_s);
    const struct lecture_number rate = in_bytes_per_s(link->bytes_per_s);
    int n = phase->size;
    switch (phase->kind) {
    case PHASE_ALL_REDUCE:
    case PHASE_RING:
        text_add(out, "2 x (%d - 1) x ", n);
        fill_part(out, link, n, phase->bytes);
        return;
    case PHASE_TREE:
        text_add(out, "2 x %.0f x %s + 2 x %s / %s", ceil(log2(n)), alpha.text,
                 in_bytes(phase->bytes).text, rate.text);
        return;
    case PHASE_SERVERS:
        text_add(out, "2 x (%d - 1) x %s / (%d x %s)", n, in_bytes(phase->bytes).text, phase->peers,
                 rate.text);
        return;
    case PHASE_REDUCE_SCATTER:
    case PHASE_ALL_TO_ALL:
        text_add(out, "(%d - 1) x ", n);
        fill_part(out, link, n, phase->bytes);
        return;
    case PHASE_ALL_GATHER:
        text_add(out, "(%d - 1) x ", n);
        fill_part(out, link, n, n * phase->bytes);
        return;
    case PHASE_PEERS:
        text_add(out, "%d x (%s + %s / %s)", phase->peers, alpha.text, in_bytes(phase->bytes).text,
                 rate.text);
        return;
    case NUM_PHASE_KINDS:
        break;
    }
}

/* Adds the sum of a step's phases; "0" when no phase sends data. */
static void add_step(struct text *formula, struct text *filled,
                     const struct textbook_setup *textbook, const struct exchange *exchange,
                     bool averages)
{
    struct textbook_load load;
    textbook_fill_load(textbook, &load);
    struct exchange_phases phases =
        exchange_phases_of(exchange, &load.load, &textbook->wires.ranks, averages);
    if (phases.count == 0) {
        text_add(formula, "0");
        text_add(filled, "0");
    }
    for (int i = 0; i < phases.count; i++) {
        const struct exchange_phase *phase = &phases.at[i];
        text_add(formula, "%s%s", i > 0 ? " + " : "", phase_formulas[phase->kind]);
        text_add(filled, "%s", i > 0 ? " + " : "");
        struct textbook_link link = textbook_phase_link(&textbook->wires, phase);
        fill_phase(filled, &link, phase);
    }
}

static void add_exchange_words(struct lecture_row *row, const struct textbook_setup *textbook,
                               const struct exchange *exchange)
{
    struct text formula = { 0 };
    if (exchange->period <= 1) {
        add_step(&formula, &row->filled, textbook, exchange, true);
        text_add(&row->formula, "%s", text_get(&formula));
        text_release(&formula);
        return;
    }
    text_add(&row->filled, "(");
    add_step(&formula, &row->filled, textbook, exchange, true);
    text_add(&row->formula, "(%s + (H - 1) (", text_get(&formula));
    text_release(&formula);
    text_add(&row->filled, " + (%d - 1) x (", exchange->period);
    add_step(&formula, &row->filled, textbook, exchange, false);
    text_add(&row->filled, ")) / %d", exchange->period);
    text_add(&row->formula, "%s))/H", text_get(&formula));
    text_release(&formula);
}

/* Adds a sentence about ZeRO's terms: reduce-scatter of gradients, all-reduce of replicated shards,
 * all-gather of weights. */
static void add_zero_words(struct lecture_row *row, const struct textbook_setup *textbook,
                           double parameters)
{
    int shards = textbook->shards > 0 ? textbook->shards : textbook->data;
    int replicas = textbook->data / shards;
    struct textbook_link shard = textbook_shard_link(textbook);
    struct textbook_link replica = textbook_ring_link(&textbook->wires, replicas, shards);
    double gradients_bytes = parameters * textbook->reduce_bytes;
    text_add(&row->formula, "(d - 1) (alpha + G/(d B))");
    text_add(&row->filled, "(%d - 1) x ", shards);
    fill_part(&row->filled, &shard, shards, gradients_bytes);
    if (replicas > 1) {
        text_add(&row->formula, " + 2 (n - 1) (alpha + G/d/(n B))");
        text_add(&row->filled, " + 2 x (%d - 1) x ", replicas);
        fill_part(&row->filled, &replica, replicas, gradients_bytes / shards);
    }
    text_add(&row->formula, " + %s(d - 1) (alpha + W/(d B))",
             zero_cuts(textbook->zero, STATE_PARAMETERS) ? "2 " : "");
    text_add(&row->filled, " + %s(%d - 1) x ",
             zero_cuts(textbook->zero, STATE_PARAMETERS) ? "2 x " : "", shards);
    fill_part(&row->filled, &shard, shards, parameters * textbook->recipe.parameter_bytes);
}

static bool is_tree(const struct exchange *exchange)
{
    return strcmp(exchange_method_of(exchange)->name, "tree") == 0;
}

static void add_data_gap(struct lecture_row *row, const struct lecture_case *of,
                         const struct exchange *exchange)
{
    const struct plan *plan = &of->setup->plan;
    if (is_tree(exchange))
        lecture_gap(row, "With exchange=tree all bytes are sent in each hop, not in pieces. ");
    if (exchange->servers > 0 && of->textbook->wires.ranks.per_node > 1)
        lecture_gap(row, "Ranks in a server's own node do not use its network card. ");
    if (exchange_method_of(exchange)->object == EXCHANGE_WEIGHTS &&
        of->textbook->wires.ranks.per_node > 1)
        lecture_gap(row, "Ranks in one node exchange without the network. ");
    if (plan_cuts(plan, STATE_PARAMETERS))
        lecture_gap(
            row, "The stack all-gathers each weight %.0f times per step. ",
            weight_gathers(&of->setup->system.stack, plan, of->prediction->num_microbatches));
    lecture_gap(row, "The detailed value is the communication that is not hidden behind backward "
                     "and update, at the profile's rates.");
}

static void add_data(struct lecture *lecture, const struct lecture_case *of)
{
    const struct textbook_setup *textbook = of->textbook;
    double parameters = of->estimate->parameters / textbook->tensor / textbook->pipeline;
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = topic,
                                          .name = "data ranks, as here",
                                          .unit = LECTURE_SECONDS,
                                          .textbook = of->estimate->data_comm_s,
                                          .detailed = of->prediction->time.data_comm_s },
                    "");
    if (zero_cuts(textbook->zero, STATE_OPTIMIZER)) {
        add_zero_words(row, textbook, parameters);
    } else if (exchange_is_default(&textbook->exchange)) {
        struct exchange_phase ring = { .kind = PHASE_RING,
                                       .size = textbook->data,
                                       .bytes = parameters * textbook->reduce_bytes };
        text_add(&row->formula, "%s", phase_formulas[PHASE_RING]);
        fill_phase(&row->filled, &textbook->data_link, &ring);
    } else {
        add_exchange_words(row, textbook, &textbook->exchange);
    }
    add_data_gap(row, of, &textbook->exchange);
}

/* Exposed communication of the data ranks in a step with another exchange; NAN if the plan cannot
 * use this exchange. */
static double exchanged_s(const struct lecture_case *of, const struct exchange *exchange)
{
    struct plan plan = of->setup->plan;
    struct prediction prediction;
    struct err ignored = { 0 };
    plan.exchange = *exchange;
    return lecture_predict(of, &plan, &prediction, &ignored) ? prediction.time.data_comm_s
                                                             : (double)NAN;
}

/* Adds rows for other exchanges with the same update. */
static void add_other(struct lecture *lecture, const struct lecture_case *of, const char *name,
                      const char *words)
{
    struct exchange exchange;
    struct err ignored = { 0 };
    if (!exchange_read(words, &exchange, &ignored) ||
        exchange.method == of->setup->plan.exchange.method)
        return;
    struct textbook_setup textbook = *of->textbook;
    textbook.reduce_bytes = dtype_bytes((enum dtype)of->setup->plan.reduce_dtype);
    textbook.exchange = exchange;
    double detailed_s = exchanged_s(of, &exchange);
    if (!isfinite(detailed_s))
        return;
    struct textbook_load load;
    textbook_fill_load(&textbook, &load);
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){
                        .topic = topic,
                        .name = name,
                        .unit = LECTURE_SECONDS,
                        .textbook = textbook_exchange_s(&textbook.wires, &exchange, &load.load),
                        .detailed = detailed_s },
                    "");
    add_exchange_words(row, &textbook, &exchange);
    add_data_gap(row, of, &exchange);
}

void lecture_add_communication(struct lecture *lecture, const struct lecture_case *of)
{
    add_tensor(lecture, of);
    if (of->textbook->data == 1)
        return;
    add_data(lecture, of);
    if (zero_cuts(of->textbook->zero, STATE_OPTIMIZER) || of->setup->plan.cp > 1)
        return;
    if (!exchange_is_default(&of->textbook->exchange))
        add_other(lecture, of, "data ranks by ring", "ring");
    add_other(lecture, of, "data ranks by tree", "tree");
    add_other(lecture, of, "data ranks by one server", "ps:1");
}
