#include "sim/cost/match.h"

#include "models/model.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <stdlib.h>
#include <string.h>

START_TEST(a_pattern_matches_anywhere_and_in_any_case)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        { "*", "", true },
        { "*", "anything", true },
        { "", "", true },
        { "", "anything", false },
        { "hdr", "8x HDR200", true },
        { "8x*HDR", "DGX, 8x Mellanox HDR200", true },
        { "8x*HDR", "HDR200 8x", false },
        { "A|B", "xbx", true },
        { "A|B", "xyz", false },
        { "A|", "", true },
        { "|A", "xyz", false },
        { "400*per GPU|RoCE", "RDMA 400Gb/s per GPU", true },
        { "longer than the text", "text", false },
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        ck_assert_msg(match_text(cases[i].pattern, cases[i].text) == cases[i].matches,
                      "wrong result for pattern %s in text %s", cases[i].pattern, cases[i].text);
}
END_TEST

/* One case has the words of a measured row and the cluster that they select; "" means that the row
 * is skipped. */
static const struct {
    struct match_row row;
    const char *cluster, *stack;
    bool is_assumed;
} matches[] = {
    { { "A100-80GB-SXM", "DGX A100 nodes (Selene), 8x Mellanox HDR200 IB HCAs/node, fat tree",
        "Megatron-LM 2021 (SC21)", 8, NULL, -1, NULL },
      "dgx-a100-80g",
      "megatron-2021",
      false },
    { { "A100-80GB-SXM", "one NVSwitch node", "Megatron-DeepSpeed", 8, NULL, -1, NULL },
      "dgx-a100-80g",
      "megatron-deepspeed",
      false },
    { { "A100-80GB-SXM", "Jean Zay: 8xA100-80GB/node NVLink, 4x OmniPath 100Gb/s per node",
        "Megatron-DeepSpeed (BigScience)", 8, NULL, -1, NULL },
      "jean-zay-a100-80g",
      "bigscience",
      false },
    { { "A100-80GB-SXM", "RoCE RDMA (speed not stated)", "Megatron-LM fork, schedule ZB-1p", 8,
        NULL, -1, NULL },
      "dgx-a100-80g",
      "megatron-2023",
      true },
    { { "A100-80GB-SXM", "4x HDR200", "Megatron Core 0.8", 8, NULL, -1, NULL },
      "hgx-a100-80g-4hdr",
      "megatron-core",
      false },
    { { "A100-80GB-SXM", "400 Gbps per node", "torchtitan", 8, NULL, -1, NULL },
      "p4de-a100-80g",
      "torchtitan",
      true },
    { { "A100-80GB-SXM", "", "llm.c", 4, NULL, -1, NULL }, "hgx-a100-80g-4", "llmc", true },
    { { "A100-40GB-SXM", "1600 Gbps/node RoCE", "Composer + PyTorch FSDP (llm-foundry)", 8, NULL,
        -1, NULL },
      "dgx-a100-40g",
      "llm-foundry",
      true },
    { { "A100-80GB-PCIe", "PCIe only inside node", "Megatron-LM (version not stated)", 8, NULL, -1,
        NULL },
      "a100-pcie-8",
      "megatron-core",
      true },
    { { "H100-80GB-SXM", "RDMA 400Gb/s per GPU", "NeMo 24.09", 8, NULL, -1, NULL },
      "dgx-h100",
      "nemo",
      false },
    { { "H100-80GB-SXM", "", "NeMo AutoModel (PyTorch FSDP2)", 8, NULL, -1, NULL },
      "dgx-h100",
      "automodel",
      true },
    { { "H100-80GB-SXM", "1:7 oversubscription", "MaxText (JAX/XLA)", 8, NULL, -1, NULL },
      "dgx-h100-over7",
      "xla",
      true },
    { { "H800-80GB", "NVSwitch node", "Megatron-Core", 8, NULL, -1, NULL },
      "h800-8",
      "megatron-core",
      false },
    { { "H200-141GB-SXM", "", "Megatron-Bridge", 8, NULL, -1, NULL }, "dgx-h200", "nemo", true },
    { { "B200-SXM", "single node", "NeMo 25.04", 8, NULL, -1, NULL }, "dgx-b200", "nemo", false },
    { { "V100-32GB-SXM", "Jean Zay V100: 4x OmniPath 100Gb/s", "Megatron-LM 2021-05", 4, NULL, -1,
        NULL },
      "jean-zay-v100",
      "megatron-2021",
      false },
    { { "V100-16GB-SXM", "", "", 0, NULL, -1, NULL }, "dgx1-v100-16g", "megatron-core", true },
    { { "GB200", "NVL72", "NeMo 25.05", 4, NULL, -1, NULL }, "gb200-nvl72", "nemo", false },
    { { "GB200", "", "NeMo 25.05", 4, NULL, -1, NULL }, "gb200-nvl72", "nemo", true },
    { { "GB300", "", "NeMo 25.09", 4, NULL, -1, NULL }, "gb300-nvl72", "nemo", true },
    { { "B300-SXM", "", "NeMo 25.09", 8, NULL, -1, NULL }, "dgx-b300", "nemo", true },
    { { "H100-80GB-SXM", "RoCE", "torchtitan", 8, NULL, -1, NULL },
      "hgx-h100-roce",
      "torchtitan",
      true },
    { { "MI300X", "RoCE", "torchtitan", 8, NULL, -1, NULL }, "mi300x-8", "torchtitan", true },
    { { "H100-96GB-SXM(HBM2e,500W)", "RoCE", "torchtitan", 8, NULL, -1, NULL },
      "meta-grand-teton",
      "torchtitan",
      false },
    { { "TPUv4", "", "MaxText", 4, NULL, -1, NULL }, "", "xla", false },
    { { "B200-SXM power limited", "single node, NVLink", "torchtitan, torch.compile", 8, NULL, 1,
        NULL },
      "dgx-b200",
      "torchtitan",
      true },
    { { "H100-80GB-SXM", "single node", "torchtitan", 8, NULL, 0, NULL },
      "meta-grand-teton",
      "torchtitan-eager",
      true },
    { { "H100-80GB-SXM", "single node", "torchtitan, eager", 8, NULL, 1, NULL },
      "meta-grand-teton",
      "torchtitan-eager",
      true },
    { { "A100-80GB-SXM", "4x 100 Gb/s RoCE per node",
        "InternEvo (FSDP-free PyTorch, flash-attn, Apex)", 8, NULL, -1, NULL },
      "dgx-a100-80g",
      "internevo",
      true },
    { { "MI325X-256GB", "", "torchtitan", 8, NULL, -1, NULL }, "mi325x-8", "torchtitan", true },
    { { "MI350X", "", "torchtitan", 8, NULL, -1, NULL }, "mi355x-8", "torchtitan", true },
    { { "MI355X", "", "torchtitan", 8, NULL, -1, NULL }, "mi355x-8", "torchtitan", true },
    { { "MI250X", "", "torchtitan", 8, NULL, -1, NULL }, "", "torchtitan", false },
};

START_TEST(a_measured_row_selects_a_cluster_and_a_stack)
{
    struct match_table table;
    struct match match;
    struct err err = { 0 };
    check_ok(match_load(NULL, &table, &err), &err);
    bool ok = match_find(&table, &matches[_i].row, &match);
    ck_assert_str_eq(match.cluster, matches[_i].cluster);
    ck_assert_str_eq(match.stack, matches[_i].stack);
    ck_assert_int_eq(ok, *matches[_i].cluster != '\0');
    ck_assert_int_eq(ok, *match.skip == '\0');
    bool is_assumed = *match.cluster_assumption || *match.stack_assumption;
    ck_assert_int_eq(is_assumed, matches[_i].is_assumed);
    match_release(&table);
}
END_TEST

START_TEST(a_rule_sets_the_optimizer_and_overlap_of_a_source)
{
    static const struct {
        const char *source, *stack;
        int optimizer;
        unsigned overlap;
    } rows[] = { { "bridge_moonlight_memory", "megatron-bridge", OPTIMIZER_ADAM_BF16,
                   1u << OVERLAP_SHARED },
                 { "bridge_sft_memory", "nemo", OPTIMIZER_ADAM, 0 } };
    struct match_table table;
    struct err err = { 0 };
    check_ok(match_load(NULL, &table, &err), &err);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct match_row row = {
            "H100-80GB-SXM", "", "Megatron-Bridge", 8, rows[i].source, -1, NULL
        };
        struct match match;
        ck_assert(match_find(&table, &row, &match));
        ck_assert_str_eq(match.stack, rows[i].stack);
        ck_assert_int_eq(match.optimizer, rows[i].optimizer);
        ck_assert_uint_eq(match.overlap, rows[i].overlap);
    }
    match_release(&table);
}
END_TEST

START_TEST(a_rule_launches_graphs_for_two_models_of_a_source)
{
    static const struct {
        const char *model;
        bool graphs;
    } rows[] = { { "Grok-1 314B", true }, { "Nemotron4 340B", true }, { "Llama 3.1 405B", false } };
    struct match_table table;
    struct err err = { 0 };
    check_ok(match_load(NULL, &table, &err), &err);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct match_row row = {
            "GB200", "", "NeMo 25.05-era", 4, "dgxc_gb200", -1, rows[i].model
        };
        struct match match;
        ck_assert(match_find(&table, &row, &match));
        ck_assert_str_eq(match.stack, "nemo");
        ck_assert_int_eq(match.graphs, rows[i].graphs);
    }
    match_release(&table);
}
END_TEST

START_TEST(every_rule_names_an_existing_file)
{
    struct match_table table;
    struct err err = { 0 };
    check_ok(match_load(NULL, &table, &err), &err);
    for (int i = 0; i < table.clusters.count; i++) {
        struct cluster cluster;
        const char *name = table.clusters.at[i].use;
        check_ok(!*name || cluster_load(name, &cluster, &err), &err);
    }
    for (int i = 0; i < table.stacks.count; i++) {
        struct stack stack;
        check_ok(stack_load(table.stacks.at[i].use, &stack, &err), &err);
        stack_release(&stack);
    }
    match_release(&table);
}
END_TEST

START_TEST(rows_whose_words_match_no_rule_are_skipped_with_a_reason)
{
    struct match_table table;
    struct match match;
    struct err err = { 0 };
    check_ok(match_load("tests/fixtures/match/two_rules.json", &table, &err), &err);
    struct match_row row = { "V100-32GB-SXM", "", "", 8, NULL, -1, NULL };
    ck_assert(!match_find(&table, &row, &match));
    ck_assert_ptr_nonnull(strstr(match.skip, "no rule"));
    row.gpus_per_node = 4;
    ck_assert(match_find(&table, &row, &match));
    ck_assert_str_eq(match.cluster, "jean-zay-v100");
    match_release(&table);
}
END_TEST

static const struct {
    const char *model, *software;
    bool is_gated;
    int activation, positions;
    bool tied;
    double dropout;
} models[] = {
    { "Llama 3 8B", "torchtitan", true, ACTIVATION_SWIGLU, POSITION_ROTARY, false, 0 },
    { "Nemotron-4 15B", "NeMo 24.09", false, ACTIVATION_RELU, POSITION_ROTARY, false, 0 },
    { "BLOOM 176B", "Megatron-DeepSpeed", false, ACTIVATION_GELU, POSITION_ALIBI, true, 0 },
    { "GPT-2 124M", "llm.c (CUDA)", false, ACTIVATION_GELU, POSITION_LEARNED, true, 0 },
    { "GPT 1.7B", "Megatron-LM 2021", false, ACTIVATION_GELU, POSITION_LEARNED, true, 0.1 },
    { "", "", false, ACTIVATION_GELU, POSITION_LEARNED, true, 0.1 },
};

START_TEST(options_of_a_model_are_chosen_by_its_name_and_software)
{
    struct match_table table;
    struct err err = { 0 };
    check_ok(match_load(NULL, &table, &err), &err);
    const struct match_model *found =
        match_find_model(&table, models[_i].model, models[_i].software, models[_i].is_gated);
    ck_assert_ptr_nonnull(found);
    ck_assert_int_eq(found->activation, models[_i].activation);
    ck_assert_int_eq(found->positions, models[_i].positions);
    ck_assert_int_eq(found->tied, models[_i].tied);
    ck_assert_double_eq(found->dropout, models[_i].dropout);
    match_release(&table);
}
END_TEST

START_TEST(a_table_without_models_matches_none)
{
    struct match_table table;
    struct err err = { 0 };
    check_ok(match_load("tests/fixtures/match/two_rules.json", &table, &err), &err);
    ck_assert_ptr_null(match_find_model(&table, "GPT", "Megatron", false));
    match_release(&table);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("match");
    TCase *words = tcase_create("words");
    setenv("SIMSEARCH_DATA", ".", 0);
    tcase_add_test(words, a_pattern_matches_anywhere_and_in_any_case);
    tcase_add_loop_test(words, a_measured_row_selects_a_cluster_and_a_stack, 0, LENGTH(matches));
    tcase_add_test(words, a_rule_sets_the_optimizer_and_overlap_of_a_source);
    tcase_add_test(words, a_rule_launches_graphs_for_two_models_of_a_source);
    tcase_add_test(words, every_rule_names_an_existing_file);
    tcase_add_test(words, rows_whose_words_match_no_rule_are_skipped_with_a_reason);
    tcase_add_loop_test(words, options_of_a_model_are_chosen_by_its_name_and_software, 0,
                        LENGTH(models));
    tcase_add_test(words, a_table_without_models_matches_none);
    suite_add_tcase(s, words);
    return s;
}

TEST_MAIN(suite)
