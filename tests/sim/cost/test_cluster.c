/* Tests storage bandwidths and shared nodes, which follow from a cluster's file, against
 * calculations by hand. */
#include "sim/cost/hardware.h"
#include "tests/testing.h"

/* A host reads storage at the stated bandwidth. If none is stated, it reads at 2 GB/s, or at the
 * bandwidth of its network if this is lower. All hosts together read no faster than the storage as
 * a whole. */
static const struct {
    int levels, gpus_per_host;
    double nic_gb_per_s, stated_gb_per_s, whole_gb_per_s; /* 0: not stated */
    int hosts;
    double network_gb_per_s, host_gb_per_s, together_gb_per_s;
    bool is_assumed;
} storages[] = {
    { 2, 0, 25, 0, 0, 3, 200, 2, 6, true },      { 2, 4, 25, 0, 0, 3, 100, 2, 6, true },
    { 2, 4, 0.1, 0, 0, 3, 0.4, 0.4, 1.2, true }, { 1, 0, 25, 0, 0, 3, 0, 2, 6, true },
    { 2, 0, 25, 5, 0, 3, 200, 5, 15, false },    { 2, 0, 25, 0, 3, 4, 200, 2, 3, false },
    { 2, 0, 25, 0, 3, 1, 200, 2, 2, true },      { 2, 0, 25, 5, 3, 4, 200, 5, 3, false },
};

START_TEST(storage_is_stated_or_assumed)
{
    struct cluster cluster = { .num_levels = storages[_i].levels,
                               .levels = { { .size = 8 },
                                           { .nics_per_gpu = 1,
                                             .bytes_per_s = 1e9 * storages[_i].nic_gb_per_s } },
                               .gpus_per_host = storages[_i].gpus_per_host,
                               .host_storage_bytes_per_s = 1e9 * storages[_i].stated_gb_per_s,
                               .storage_bytes_per_s = 1e9 * storages[_i].whole_gb_per_s };
    int hosts = storages[_i].hosts;
    ck_assert_double_eq_tol(cluster_host_network_bytes_per_s(&cluster),
                            1e9 * storages[_i].network_gb_per_s, 1);
    ck_assert_double_eq_tol(cluster_host_storage_bytes_per_s(&cluster),
                            1e9 * storages[_i].host_gb_per_s, 1);
    ck_assert_double_eq_tol(cluster_storage_bytes_per_s(&cluster, hosts),
                            1e9 * storages[_i].together_gb_per_s, 1);
    ck_assert_int_eq(cluster_assumes_storage(&cluster, hosts), storages[_i].is_assumed);
}
END_TEST

/* On each node a job uses all GPUs, or as many whole hosts as divide the job's GPUs evenly, but at
 * least half of the node. */
static const struct {
    int node, host, num_gpus, share;
} shares[] = {
    { 72, 4, 60, 72 },  { 72, 4, 72, 72 },  { 72, 4, 144, 72 }, { 72, 4, 128, 64 },
    { 72, 4, 108, 36 }, { 72, 4, 100, 72 }, { 72, 4, 136, 68 }, { 8, 0, 12, 8 },
    { 8, 0, 24, 8 },    { 8, 4, 12, 4 },    { 8, 2, 12, 6 },    { 16, 4, 20, 16 },
};

START_TEST(a_job_shares_its_nodes_by_whole_hosts)
{
    struct cluster cluster = { .num_levels = 1,
                               .levels = { { .size = shares[_i].node } },
                               .gpus_per_host = shares[_i].host };
    ck_assert_int_eq(cluster_node_size(&cluster), shares[_i].node);
    ck_assert_int_eq(cluster_host_size(&cluster),
                     shares[_i].host > 0 ? shares[_i].host : shares[_i].node);
    ck_assert_int_eq(cluster_node_share(&cluster, shares[_i].num_gpus), shares[_i].share);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("cluster");
    tcase_add_loop_test(tc, storage_is_stated_or_assumed, 0, LENGTH(storages));
    tcase_add_loop_test(tc, a_job_shares_its_nodes_by_whole_hosts, 0, LENGTH(shares));
    Suite *s = suite_create("sim/cost/cluster");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
