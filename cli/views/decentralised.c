/* The lectures' tables of decentralised training, with predictions next to published values: times
 * of an exchange and hours of a training, for ResNet-50 and BERT-Large. */
#include "cli/views/decentralised.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/length.h"
#include "models/workload.h"
#include "sim/campaign/convergence.h"
#include "sim/cost/exchange.h"
#include "sim/engine/data_parallel.h"
#include "sim/exchange/robust.h"
#include "sim/plan/plan.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static const char all_reduce[] = "ring";
/* gossip between nodes: the 8 ranks of a node act as one */
static const char one_peer[] = "gossip:one-peer:group=8";

/* --- one exchange --------------------------------------------------------------------------- */

/* The network of a paper's GPUs. */
struct network {
    struct arena arena;
    struct system system;
};

static bool network_load(const char *paper, int num_gpus, struct network *out, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    *out = (struct network){ 0 };
    if (!file_data_folder("calibration/papers", folder, sizeof folder))
        return err_set(err, ERR_SYSTEM, "calibration/papers", "no such data folder");
    int length = snprintf(path, sizeof path, "%s/%s.json", folder, paper);
    if (length < 0 || (size_t)length >= sizeof path)
        return err_set(err, ERR_SYSTEM, folder, "is too long a path");
    return system_load(path, NULL, num_gpus, &out->system, err);
}

static void network_release(struct network *network)
{
    system_release(&network->system);
    arena_release(&network->arena);
}

/* The exchange of one batch's fp32 gradients in the stack's buckets: its time, including the
 * latency of messages, and the number of buckets. */
struct sent {
    double seconds, buckets;
};

static bool send(struct network *network, const char *exchange, const char *workload,
                 struct sent *out, struct err *err)
{
    const struct system *system = &network->system;
    struct plan plan;
    char layout[100];
    double parameters = workload_find(workload)->parameters;
    double buckets = ceil(4 * parameters / system->stack.shards.bucket_bytes);
    struct exchange_tensor tensor = { parameters / buckets, 1, 1 };
    struct exchange_load load = { &tensor, 1, 4 };
    snprintf(layout, sizeof layout, "dp%d dtype=fp32 exchange=%s", system->num_gpus, exchange);
    if (!plan_parse(layout, &network->arena, &plan, err))
        return false;
    struct exchange_cost bucket = exchange_cost(system, &plan, &load, 1);
    double bucket_s = bucket.gradients_s + bucket.weights_s + bucket.memory_s;
    *out = (struct sent){ system->stack.host.step_s + buckets * bucket_s, buckets };
    return true;
}

static void add(struct decentralised *out, struct decentralised_row row)
{
    out->at[out->count++] = row;
}

/* --- Chen et al. 2021 ----------------------------------------------------------------------- */

static bool add_batches(const char *workload, int gpus, double ring_s, double gossip_s,
                        struct decentralised *out, struct err *err)
{
    const char *const exchanges[] = { all_reduce, one_peer };
    const double published_s[] = { ring_s, gossip_s };
    struct network network;
    bool ok = network_load("chen2021", gpus, &network, err);
    for (int i = 0; ok && i < 2; i++) {
        struct sent sent;
        ok = send(&network, exchanges[i], workload, &sent, err);
        if (ok)
            add(out, (struct decentralised_row){ "chen2021", workload, exchanges[i], gpus, false,
                                                 sent.seconds, published_s[i] });
    }
    network_release(&network);
    return ok;
}

/* The number of steps is the difference of the paper's hours for all-reduce and gossip, 59.02 -
 * 29.7, divided by the difference of their exchange times. The hours without exchange are compute.
 * Periodic methods average over all ranks every H steps. AGA (adaptive H) starts with H = 4; its
 * loss falls from 11 to 1.77. */
static bool add_bert_hours(struct decentralised *out, struct err *err)
{
    static const double ring_h = 59.02, gossip_h = 29.7, ring_s = 1.4688, gossip_s = 0.5665;
    static const struct {
        const char *exchange;
        double published_h;
    } rows[] = { { "ring", ring_h },
                 { one_peer, gossip_h },
                 { "pga:6:graph=one-peer", 35.4 },
                 { "aga:4:graph=one-peer", 30.4 } };
    double steps = (ring_h - gossip_h) * 3600 / (ring_s - gossip_s);
    double compute_s = ring_h * 3600 / steps - ring_s;
    struct network network;
    struct sent ring, gossip;
    struct exchange aga;
    bool ok = network_load("chen2021", 64, &network, err) &&
              send(&network, all_reduce, "bert-large", &ring, err) &&
              send(&network, one_peer, "bert-large", &gossip, err) &&
              exchange_read("aga:4", &aga, err);
    for (int i = 0; ok && i < LENGTH(rows); i++) {
        double averages = i == 0   ? 1
                          : i == 1 ? 0
                          : i == 2 ? 1.0 / 6
                                   : 1.0 / exchange_adapted_period(&aga, 11, 1.77);
        double step_s = compute_s + gossip.seconds + (ring.seconds - gossip.seconds) * averages;
        add(out, (struct decentralised_row){ "chen2021", "bert-large", rows[i].exchange, 64, true,
                                             steps * step_s, 3600 * rows[i].published_h });
    }
    network_release(&network);
    return ok;
}

/* --- Ying et al. 2021 ----------------------------------------------------------------------- */

/* 90 epochs of 1,281,167 images, 32 per GPU and step. Three values were fitted on the eight
 * published times: a step's compute time, the share of it that overlaps the exchange, and the
 * network's latency. */
static bool add_imagenet_hours(struct decentralised *out, struct err *err)
{
    static const struct {
        int nodes;
        double ring_h, gossip_h;
    } rows[] = { { 4, 11.6, 11.1 }, { 8, 6.3, 5.7 }, { 16, 3.7, 2.8 }, { 32, 2.2, 1.5 } };
    static const double images = 1281167, epochs = 90, images_a_gpu = 32;
    static const double compute_s = 0.354, window_s = 0.094;
    bool ok = true;
    for (int i = 0; ok && i < 2 * LENGTH(rows); i++) {
        bool is_ring = i % 2 == 0;
        const char *exchange = is_ring ? all_reduce : one_peer;
        int gpus = 8 * rows[i / 2].nodes;
        struct network network;
        struct sent sent;
        ok = network_load("ying2021", gpus, &network, err) &&
             send(&network, exchange, "resnet-50", &sent, err);
        if (ok) {
            double steps = epochs * images / (images_a_gpu * gpus);
            double step_s = compute_s + exposed_s(&network.system.profile, sent.seconds, window_s,
                                                  sent.buckets);
            double published_h = is_ring ? rows[i / 2].ring_h : rows[i / 2].gossip_h;
            add(out, (struct decentralised_row){ "ying2021", "resnet-50", exchange, gpus, true,
                                                 steps * step_s, 3600 * published_h });
        }
        network_release(&network);
    }
    return ok;
}

bool decentralised_predict(struct decentralised *out, struct err *err)
{
    *out = (struct decentralised){ 0 };
    return add_batches("resnet-50", 256, 0.278, 0.150, out, err) &&
           add_batches("bert-large", 64, 1.4688, 0.5665, out, err) && add_bert_hours(out, err) &&
           add_imagenet_hours(out, err);
}

/* --- output --------------------------------------------------------------------------------- */

static const char *source_of(const char *paper)
{
    return strcmp(paper, "chen2021") == 0
               ? "Chen et al. 2021, Accelerating Gossip SGD with Periodic Global Averaging; "
                 "BERT-Large's values except 59.02 and 30.4 h are quoted from memory"
               : "Ying et al. 2021, Exponential Graph is Provably Efficient for Decentralized Deep "
                 "Training";
}

json_t *decentralised_entries(struct err *err)
{
    struct decentralised table;
    if (!decentralised_predict(&table, err))
        return NULL;
    json_t *list = json_array();
    for (int i = 0; i < table.count; i++) {
        const struct decentralised_row *row = &table.at[i];
        json_t *entry = json_object();
        json_object_set_new(entry, "name", json_string(row->exchange));
        json_object_set_new(entry, "aliases", json_array());
        json_object_set_new(
            entry, "summary",
            json_string(row->is_training ? "a whole training" : "the exchange of a batch"));
        json_object_set_new(entry, "source", json_string(source_of(row->paper)));
        json_object_set_new(entry, "workload", json_string(row->workload));
        json_object_set_new(entry, "gpus", json_integer(row->gpus));
        json_object_set_new(entry, "predicted_s", json_real(row->predicted));
        json_object_set_new(entry, "published_s", json_real(row->published));
        json_array_append_new(list, entry);
    }
    return list;
}

static void print_times(const struct decentralised *table, FILE *to)
{
    fprintf(to, "| workload | GPUs | exchange | quantity | predicted | published | error |\n"
                "|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < table->count; i++) {
        const struct decentralised_row *row = &table->at[i];
        double unit = row->is_training ? 3600 : 1e-3;
        fprintf(to, "| %s | %d | `%s` | %s | %.4g %s | %.4g %s | %+.1f %% |\n", row->workload,
                row->gpus, row->exchange,
                row->is_training ? "whole training" : "exchange of a batch", row->predicted / unit,
                row->is_training ? "h" : "ms", row->published / unit, row->is_training ? "h" : "ms",
                100 * (row->predicted / row->published - 1));
    }
}

static const double no_number = -1;

/* Prints a number; a dash if the method has no such constant. */
static void print_cell(double value, FILE *to)
{
    if (value < 0)
        fprintf(to, " - |");
    else if (isinf(value))
        fprintf(to, " no bound |");
    else
        fprintf(to, " %.3g |", value);
}

/* Number of steps after which a method has caught up with all-reduce. Byzantine-robust aggregation
 * never does, as its error does not vanish. */
static double transient(double heterogeneity, const struct exchange_use *use)
{
    struct convergence convergence = convergence_published;
    convergence.heterogeneity = heterogeneity;
    return robust_error(use->exchange, use->num_ranks) > 0
               ? no_number
               : convergence_transient_steps(&convergence, use);
}

static void print_method(const struct exchange_method *method, const struct exchange_load *load,
                         int num_ranks, FILE *to)
{
    struct exchange exchange;
    struct err ignored = { 0 };
    if (!exchange_read(method->tried, &exchange, &ignored))
        return;
    const struct compressor *compressor = method->compressor;
    struct exchange_use use = exchange_use_of(&exchange, load, num_ranks);
    double kappa = robust_error(&exchange, num_ranks);
    bool mixes = !compressor && !exchange_keeps_replicas_equal(&exchange);
    bool averages = mixes && strcmp(method->name, "local") != 0;
    double bound = compressor ? compressor->bound(&exchange, load) : no_number;
    fprintf(to, "| `%s` |", method->tried);
    print_cell(averages ? 1 - mixing_rate((enum mixing_graph)exchange.graph, num_ranks) : no_number,
               to);
    print_cell(compressor && compressor->is_unbiased ? bound : no_number, to);
    print_cell(compressor && !compressor->is_unbiased ? bound : no_number, to);
    print_cell(kappa > 0 ? kappa : no_number, to);
    print_cell(convergence_noise_factor(&convergence_published, &use), to);
    print_cell(transient(0, &use), to);
    print_cell(transient(0.999, &use), to);
    fprintf(to, "\n");
}

static void print_origins(FILE *to)
{
    fprintf(to, "\nThe network of each paper was fitted on the paper's times (calibration/papers). "
                "BERT-Large's\nsteps and compute follow from its published hours and exchange "
                "times of ring all-reduce and gossip.\nResNet-50's compute, and how much of it "
                "overlaps the exchange, were fitted on its eight published hours.\nNo row of pga "
                "or aga was used in a fit.\n");
}

/* Prints the methods' constants for matrices of 2048 x 1000, the largest of ResNet-50. */
static void print_constants(FILE *to)
{
    enum { NUM_RANKS = 32 };
    struct exchange_tensor tensor = { 2048, 1000,
                                      workload_find("resnet-50")->parameters / (2048 * 1000) };
    struct exchange_load load = { &tensor, 1, 4 };
    fprintf(to,
            "\nConvergence constants for ResNet-50 on %d ranks. 1 - beta is the spectral gap of "
            "the gossip graph.\nUnbiased compression multiplies the gradient noise by 1 + omega; "
            "biased compression keeps at least the\nfraction delta of a gradient. The squared "
            "error of Byzantine-robust aggregation is at most kappa times\nthe variance of the "
            "honest gradients. Transients are in steps: with shuffled data (heterogeneity 0),\nand "
            "if each rank has its own data (heterogeneity 0.999).\n\n| exchange | 1 - beta | omega "
            "| delta | kappa | "
            "steps x | transient | own data |\n|---|---|---|---|---|---|---|---|\n",
            NUM_RANKS);
    for (int i = 0; i < num_exchange_methods; i++)
        if (exchange_methods[i].tried)
            print_method(&exchange_methods[i], &load, NUM_RANKS, to);
}

void decentralised_print(FILE *to)
{
    struct decentralised table;
    struct err err = { 0 };
    fprintf(to, "# Decentralised training, predicted and published\n\n");
    for (int i = 0; i < num_workloads; i++)
        fprintf(to, "- %s: %.4g parameters, %.3g FLOPs in the forward of %s. %s\n",
                workloads[i].name, workloads[i].parameters, workloads[i].forward_flops,
                workloads[i].sample, workloads[i].source);
    if (!decentralised_predict(&table, &err)) {
        fprintf(to, "\n%s: %s\n", err.where, err.msg);
        return;
    }
    fprintf(to, "- times: %s; %s\n\n", source_of("chen2021"), source_of("ying2021"));
    print_times(&table, to);
    print_origins(to);
    print_constants(to);
}
