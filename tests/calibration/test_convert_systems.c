#include "calibration/rows/link_speed.h"
#include "calibration/score/score.h"

#include "tests/calibration/plain_row.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <string.h>

#define FITTED "tests/fixtures/runs/fitted_stack.json"

START_TEST(a_rack_of_several_hosts_stays_one_node)
{
    struct run_row row = plain_row();
    row.gpu = "GB200";
    row.precision = "bf16";
    row.network = "NVL72";
    row.gpus_per_node = 4;
    ck_assert_int_eq(cluster_node_size(&convert_known(&row).system->cluster), 72);
    row.gpus_per_node = 72;
    ck_assert_int_eq(cluster_node_size(&convert_known(&row).system->cluster), 72);
    row.gpus_per_node = 8;
    ck_assert_int_eq(cluster_node_size(&convert_known(&row).system->cluster), 8);
}
END_TEST

START_TEST(nodes_have_the_number_of_gpus_that_the_row_states)
{
    struct run_row row = plain_row();
    row.gpus_per_node = 2;
    ck_assert_int_eq(cluster_node_size(&convert_known(&row).system->cluster), 2);
    row.gpus_per_node = 16;
    struct run_case out = convert_known(&row);
    ck_assert_int_eq(cluster_node_size(&out.system->cluster), 8);
    ck_assert(is_assumed(&out, "fewer than stated"));
}
END_TEST

#define GBPS(number) ((number)*1e9 / 8)

static const struct {
    const char *words;
    double bytes_per_s; /* bandwidth of all network cards of a node, or of the cards of one GPU */
    bool is_of_node;
    int cards;
} speeds[] = {
    { "400 Gbps per node", GBPS(400), true, 0 },
    { "100 Gb/s per node", GBPS(100), true, 0 },
    { "1600 Gbps/node RoCE", GBPS(1600), true, 0 },
    { "3.2 Tb/s a node", GBPS(3200), true, 0 },
    { "RDMA 400Gb/s per GPU", GBPS(400), false, 0 },
    { "InfiniBand, 137 Gb/s per GPU", GBPS(137), false, 0 },
    { "4x 100 Gb/s RoCE per node", GBPS(400), true, 4 },
    { "8x200Gb/s per node", GBPS(1600), true, 8 },
    { "Jean Zay: 8xA100-80GB/node NVLink, 4x OmniPath 100Gb/s per node", GBPS(400), true, 4 },
    { "DGX A100 nodes (Selene), 8x Mellanox HDR200 IB HCAs/node, fat tree", 0, false, 0 },
    { "PCIe only inside node (~30 GB/s)", 0, false, 0 },
    { "NVLink 900 GB/s per GPU", 0, false, 0 },
    { "Jean Zay V100: 4x OmniPath 100Gb/s", 0, false, 0 },
    { "8x400G NDR", 0, false, 0 },
    { "100 Gb/s, 8 per node", 0, false, 0 },
    { "", 0, false, 0 },
};

START_TEST(network_speeds_are_read_from_words)
{
    struct link_speed speed = link_speed_read(speeds[_i].words);
    ck_assert_double_eq(speed.bytes_per_s, speeds[_i].bytes_per_s);
    ck_assert_int_eq(speed.is_of_node, speeds[_i].is_of_node);
    ck_assert_int_eq(speed.cards, speeds[_i].cards);
}
END_TEST

/* Words with which rows describe the network between nodes, and their meaning: the number of
 * network cards per GPU and the speed of a card. */
static const struct {
    const char *words;
    double nics_per_gpu, bytes_per_s;
    int channels;
    const char *assumption;
} links[] = {
    { "8x HDR200", 1, 25e9, 8, NULL },
    { "1600 Gb/s per node", 1, 25e9, 8, NULL },
    { "800 Gb/s per node", 0.5, 25e9, 4, NULL },
    { "600 Gb/s per node", 1, 9.375e9, 8, "bandwidth as stated" },
    { "50 Gb/s per GPU", 1, 6.25e9, 8, "bandwidth as stated" },
    { "4x 100 Gb/s RoCE per node", 0.5, 12.5e9, 4, "bandwidth as stated" },
    { "2x 25 Gb/s per node", 0.25, 3.125e9, 2, "bandwidth as stated" },
    { "800 Gb/s per GPU", 1, 25e9, 8, "faster than the host's link" },
    { "InfiniBand, fat tree", 1, 25e9, 8, "InfiniBand of unstated speed" },
    { "carrier pigeons", 1, 12.5e9, 8, "network not recognised" },
};

START_TEST(a_network_described_in_words_has_the_stated_speed)
{
    struct run_row row = plain_row();
    row.n_gpus = 16;
    row.dp = 4;
    row.network = links[_i].words;
    struct run_case out = convert_known(&row);
    const struct level *rail = &out.system->cluster.levels[1];
    ck_assert_double_eq_tol(rail->nics_per_gpu, links[_i].nics_per_gpu, 1e-9);
    ck_assert_double_eq_tol(rail->bytes_per_s, links[_i].bytes_per_s, 1);
    ck_assert_int_eq(rail->channels, links[_i].channels);
    ck_assert_double_eq_tol(
        rail->channel_bytes_per_s,
        0.96 * links[_i].bytes_per_s * links[_i].nics_per_gpu * 8 / links[_i].channels, 1);
    ck_assert(!links[_i].assumption || is_assumed(&out, links[_i].assumption));
    ck_assert_double_eq(out.system->cluster.levels[0].bytes_per_s, 300e9);
}
END_TEST

/* The network named EFA is that of the cluster file of AWS, whose nodes have 4 cards of 100 Gb/s.
 * The same network described in words must have the same bandwidth. */
START_TEST(a_network_described_in_words_equals_that_of_the_cluster_file)
{
    struct run_row row = plain_row();
    row.n_gpus = 16;
    row.dp = 4;
    row.network = "EFA";
    struct level known = convert_known(&row).system->cluster.levels[1];
    row.network = "4x 100 Gb/s per node";
    struct level stated = convert_known(&row).system->cluster.levels[1];
    ck_assert_double_eq(stated.bytes_per_s, known.bytes_per_s);
    ck_assert_double_eq(stated.nics_per_gpu, known.nics_per_gpu);
    ck_assert_int_eq(stated.channels, known.channels);
    ck_assert_double_eq(stated.channel_bytes_per_s, known.channel_bytes_per_s);
}
END_TEST

/* Names of GPUs in files of measured runs. */
static const char *const gpu_words[] = {
    "MI300X-192GB",
    "MI325X-256GB",
    "MI350X",
    "MI355X",
    "B200-SXM power limited",
    "V100-16GB-SXM",
    "V100-32GB-SXM",
    "A100-40GB-SXM",
    "A100-80GB-SXM",
    "A100-80GB-PCIe",
    "H100-80GB-SXM",
    "H100-80GB-PCIe",
    "H800-80GB",
    "H200-141GB-SXM",
    "B200-SXM",
    "B300-SXM",
    "GB200",
    "GB300",
    "H100-96GB-SXM(HBM2e,500W)",
};

START_TEST(every_gpu_name_of_measured_rows_is_recognised)
{
    struct run_row row = plain_row();
    row.gpu = gpu_words[_i];
    ck_assert_str_eq(convert(&row).skip, "");
}
END_TEST

START_TEST(rows_on_equal_systems_share_one_struct_system)
{
    struct run_row row = plain_row();
    struct run_row other = plain_row();
    other.mbs = 4;
    struct run_case first = convert_known(&row);
    ck_assert_ptr_eq(first.system, convert_known(&other).system);
    other.n_gpus = 16;
    other.dp = 4;
    ck_assert_ptr_ne(first.system, convert_known(&other).system);
}
END_TEST

START_TEST(a_row_is_fitted_when_its_id_or_source_is_listed)
{
    struct err err = { 0 };
    run_systems_free(row_systems);
    row_systems = run_systems_new(NULL, FITTED, &err);
    struct run_row row = plain_row();
    ck_assert(!convert_known(&row).is_fitted);
    row.id = "again-2";
    ck_assert(convert_known(&row).is_fitted);
    row.id = "one";
    row.source_key = "other";
    ck_assert(convert_known(&row).is_fitted);
}
END_TEST

START_TEST(an_unknown_stack_that_was_asked_for_is_an_error)
{
    struct err err = { 0 };
    struct run_case out;
    run_systems_free(row_systems);
    row_systems = run_systems_new(NULL, "megatron-1999", &err);
    struct run_row row = plain_row();
    ck_assert(!run_convert(row_systems, &row, &out, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.where, "megatron-1999");
}
END_TEST

START_TEST(a_requested_cluster_replaces_unknown_words_of_a_row)
{
    struct err err = { 0 };
    run_systems_free(row_systems);
    row_systems = run_systems_new("dgx-h100", NULL, &err);
    struct run_row row = plain_row();
    row.gpu = "abacus";
    ck_assert_str_eq(convert_known(&row).system->cluster.name, "dgx-h100");
}
END_TEST

START_TEST(a_rows_prediction_does_not_depend_on_the_other_rows)
{
    enum { COUNT = 9 };
    static const char *const replays[] = { "selective", "op-selective", "selective mlp" };
    struct run_row rows[COUNT];
    struct run_case all[COUNT];
    struct run_prediction together[COUNT];
    for (int i = 0; i < COUNT; i++) {
        rows[i] = plain_row();
        rows[i].mbs = i % 2 ? 4 : 2;
        rows[i].layers = i < 3 ? 24 : 48;
        rows[i].precision = i == 4 ? "fp8" : "fp16"; /* skipped */
        rows[i].recompute = i >= 6 ? replays[i - 6] : rows[i].recompute;
        all[i] = convert(&rows[i]);
    }
    runs_predict(all, COUNT, 3, together);
    for (int i = 0; i < COUNT; i++) {
        struct run_prediction alone;
        runs_predict(&all[i], 1, 1, &alone);
        ck_assert_double_eq(together[i].step_s, alone.step_s);
        ck_assert_double_eq(together[i].memory_bytes, alone.memory_bytes);
        ck_assert((alone.step_s > 0) == (i != 4));
    }
}
END_TEST

/* Rows may have equal columns but different presets, which set further fields of the model. */
START_TEST(rows_whose_models_differ_only_in_experts_get_separate_predictions)
{
    struct run_row row = plain_row();
    struct run_case both[2] = { convert_known(&row), convert_known(&row) };
    struct run_prediction together[2], alone;
    struct err err = { 0 };
    struct model *model = &both[1].model;
    model->experts = 4;
    model->topk = 2;
    model->feed_forward = FEED_FORWARD_EXPERTS;
    model->expert_ffn = model->ffn;
    check_ok(model_check(model, &err), &err);
    runs_predict(both, 2, 1, together);
    runs_predict(&both[1], 1, 1, &alone);
    ck_assert_double_eq(together[1].step_s, alone.step_s);
    ck_assert_double_gt(together[1].step_s, together[0].step_s);
}
END_TEST

START_TEST(a_run_that_exceeds_memory_is_still_predicted)
{
    struct run_row row = plain_row();
    row.hidden = 16384;
    row.layers = 96;
    struct run_case out = convert_known(&row);
    struct run_prediction prediction;
    runs_predict(&out, 1, 1, &prediction);
    ck_assert(!prediction.fits);
    ck_assert_double_gt(prediction.step_s, 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("convert: systems and predictions");
    TCase *rows = tcase_create("rows");
    tcase_add_checked_fixture(rows, row_systems_start, row_systems_end);
    tcase_add_test(rows, a_rack_of_several_hosts_stays_one_node);
    tcase_add_test(rows, nodes_have_the_number_of_gpus_that_the_row_states);
    tcase_add_loop_test(rows, network_speeds_are_read_from_words, 0, LENGTH(speeds));
    tcase_add_loop_test(rows, a_network_described_in_words_has_the_stated_speed, 0, LENGTH(links));
    tcase_add_test(rows, a_network_described_in_words_equals_that_of_the_cluster_file);
    tcase_add_loop_test(rows, every_gpu_name_of_measured_rows_is_recognised, 0, LENGTH(gpu_words));
    tcase_add_test(rows, rows_on_equal_systems_share_one_struct_system);
    tcase_add_test(rows, a_row_is_fitted_when_its_id_or_source_is_listed);
    tcase_add_test(rows, an_unknown_stack_that_was_asked_for_is_an_error);
    tcase_add_test(rows, a_requested_cluster_replaces_unknown_words_of_a_row);
    tcase_add_test(rows, a_rows_prediction_does_not_depend_on_the_other_rows);
    tcase_add_test(rows, rows_whose_models_differ_only_in_experts_get_separate_predictions);
    tcase_add_test(rows, a_run_that_exceeds_memory_is_still_predicted);
    suite_add_tcase(s, rows);
    return s;
}

TEST_MAIN(suite)
