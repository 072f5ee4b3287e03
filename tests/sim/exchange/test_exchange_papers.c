/* Published times of training beyond all-reduce. The network of each paper is one cluster file in
 * tests/fixtures/exchange, with its source; what else a setting needs stands beside the numbers. */
#include "sim/cost/exchange.h"
#include "sim/engine/data_parallel.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>

static struct arena arena;
static struct system cluster;
static struct err err;

static void teardown(void)
{
    system_release(&cluster);
    arena_release(&arena);
}

static void load(const char *paper, int num_gpus)
{
    char path[80];
    snprintf(path, sizeof path, "tests/fixtures/exchange/%s.json", paper);
    system_release(&cluster);
    ck_assert_msg(system_load(path, NULL, num_gpus, &cluster, &err), "%s: %s", err.where, err.msg);
}

/* fp32 gradients, sent in the stack's buckets. */
struct sent {
    double comm_s; /* all of it, with the time before anything is sent */
    double buckets;
};

static struct sent sent(const char *exchange, double parameters)
{
    char layout[100];
    struct plan plan;
    snprintf(layout, sizeof layout, "dp%d dtype=fp32 exchange=%s", cluster.num_gpus, exchange);
    ck_assert_msg(plan_parse(layout, &arena, &plan, &err), "%s", err.msg);
    double buckets = ceil(4 * parameters / cluster.stack.shards.bucket_bytes);
    struct exchange_tensor tensor = { parameters / buckets, 1, 1 };
    struct exchange_load load = { &tensor, 1, 4 };
    struct exchange_cost bucket = exchange_cost(&cluster, &plan, &load, 1);
    double seconds = bucket.gradients_s + bucket.weights_s + bucket.memory_s;
    return (struct sent){ cluster.stack.host.step_s + buckets * seconds, buckets };
}

static void check(const char *what, double got, double published, double tolerance)
{
    ck_assert_msg(fabs(got / published - 1) <= tolerance, "%s: %g, published %g: %+.1f %%", what,
                  got, published, 100 * (got / published - 1));
}

static const double resnet50 = 25.5e6, bert_large = 330e6;
static const char one_peer[] = "gossip:one-peer:group=8"; /* a node is one of its participants */

/* --- Chen et al. 2021 ------------------------------------------------------------------------- */

/* Within 10 %: three constants of the profile reproduce four times. */
START_TEST(resnet50_on_256_gpus_takes_278_ms_by_ring_and_150_by_partial_averaging)
{
    load("chen2021", 256);
    check("ring", sent("ring", resnet50).comm_s, 0.278, 0.10);
    check("gossip", sent(one_peer, resnet50).comm_s, 0.150, 0.10);
}
END_TEST

/* Steps and compute are those that the paper's hours and communication times of parallel SGD and
 * gossip imply (59.02 and 29.7 h at 1468.8 and 566.5 ms, the latter three as recalled); AGA starts
 * with H = 4 and its loss falls from 11 to 1.77. Within 10 %. */
START_TEST(bert_large_on_64_gpus_takes_59_hours_by_all_reduce_and_30_by_gossip_aga)
{
    double steps = (59.02 - 29.7) * 3600 / (1.4688 - 0.5665);
    double compute_s = 59.02 * 3600 / steps - 1.4688;
    load("chen2021", 64);
    double ring_s = sent("ring", bert_large).comm_s, gossip_s = sent(one_peer, bert_large).comm_s;
    struct exchange aga;
    ck_assert(exchange_read("aga:4", &aga, &err));
    double period = exchange_adapted_period(&aga, 11, 1.77);
    double aga_s = gossip_s + (ring_s - gossip_s) / period;
    check("parallel SGD", steps * (compute_s + ring_s) / 3600, 59.02, 0.10);
    check("Gossip-AGA", steps * (compute_s + aga_s) / 3600, 30.4, 0.10);
}
END_TEST

/* --- Ying et al. 2021 ------------------------------------------------------------------------- */

/* 90 epochs of 1,281,167 images, 32 a GPU. Two constants stand beside the network's: a step's
 * compute, and how much of it buckets travel beside; with the latency they were fitted on the eight
 * times. Accuracies, to show and not to predict: 76.32, 76.47, 76.46, 76.25 % and 76.34, 76.52,
 * 76.47, 76.27 %. Within 7 %. */
START_TEST(imagenet_takes_the_published_hours_on_4_to_32_nodes)
{
    static const struct {
        int nodes;
        double all_reduce_h, gossip_h;
    } rows[] = { { 4, 11.6, 11.1 }, { 8, 6.3, 5.7 }, { 16, 3.7, 2.8 }, { 32, 2.2, 1.5 } };
    const double compute_s = 0.354, window_s = 0.094;
    for (int i = 0; i < LENGTH(rows); i++) {
        int num_gpus = 8 * rows[i].nodes;
        load("ying2021", num_gpus);
        double steps = 90 * 1281167.0 / (32 * num_gpus);
        struct sent ring = sent("ring", resnet50), gossip = sent(one_peer, resnet50);
        double ring_s = exposed_s(&cluster.profile, ring.comm_s, window_s, ring.buckets);
        double gossip_s = exposed_s(&cluster.profile, gossip.comm_s, window_s, gossip.buckets);
        check("parallel SGD", steps * (compute_s + ring_s) / 3600, rows[i].all_reduce_h, 0.07);
        check("one-peer", steps * (compute_s + gossip_s) / 3600, rows[i].gossip_h, 0.07);
    }
}
END_TEST

/* --- BlueFog ---------------------------------------------------------------------------------- */

/* 64 images a GPU; 4310.6 images/s of 16 GPUs are its speed where nothing is waited for. Horovod
 * reduces beside the backward, BlueFog averages what the step began with. Within 5 points. */
START_TEST(bluefog_scales_to_128_gpus_where_all_reduce_does_not)
{
    double compute_s = 64 / (4310.6 / 16);
    load("bluefog2020", 128);
    struct sent ring = sent("ring", resnet50);
    double ring_s = exposed_s(&cluster.profile, ring.comm_s, compute_s * 2 / 3, ring.buckets);
    double gossip_s =
        exposed_s(&cluster.profile, sent("gossip:one-peer:combine=beside:group=8", resnet50).comm_s,
                  compute_s, HUGE_VAL);
    check("Horovod", compute_s / (compute_s + ring_s), 0.66, 0.05 / 0.66);
    ck_assert_double_ge(compute_s / (compute_s + gossip_s), 0.95);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("papers");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, resnet50_on_256_gpus_takes_278_ms_by_ring_and_150_by_partial_averaging);
    tcase_add_test(tc, bert_large_on_64_gpus_takes_59_hours_by_all_reduce_and_30_by_gossip_aga);
    tcase_add_test(tc, imagenet_takes_the_published_hours_on_4_to_32_nodes);
    tcase_add_test(tc, bluefog_scales_to_128_gpus_where_all_reduce_does_not);
    Suite *s = suite_create("published exchanges");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
