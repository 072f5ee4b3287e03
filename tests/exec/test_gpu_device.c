/* Tests the GPU device on a simulated GPU (tests/cuda_on_host). */
#include "exec/plugin/backend.h"
#include "tests/exec/plugin_on_host.h"
#include "tests/testing.h"

#include <stdatomic.h>
#include <stdlib.h>

static const struct device_api *gpu; /* NULL if the plugin was not built */
static struct device *device;
static struct stream *stream;

static void set_up(void)
{
    struct err err = { 0 };
    if (!plugin_on_host_choose())
        return;
    const struct backend *backend = backend_find("cuda", &err);
    ck_assert_msg(backend, "%s: %s", err.where, err.msg);
    gpu = backend->device;
    device = gpu->open(&(struct device_options){ .arena_bytes = 1 << 20 }, &err);
    ck_assert_msg(device, "%s: %s", err.where, err.msg);
    stream = gpu->stream_new(device, "test", &err);
    ck_assert_msg(stream, "%s: %s", err.where, err.msg);
}

static void tear_down(void)
{
    if (!gpu)
        return;
    gpu->stream_free(stream);
    gpu->close(device);
}

/* A stream posts (writes to memory) how far it has come. It does so without host functions, which
 * would stall the stream. */
START_TEST(stream_positions_are_posted_without_host_functions)
{
    struct err err = { 0 };
    if (!gpu)
        return;
    _Atomic uint32_t *word = gpu->pinned_alloc(device, sizeof *word, &err);
    atomic_init(word, 0);
    for (uint32_t number = 1; number <= 100; number++)
        gpu->post(stream, word, number);
    ck_assert_msg(gpu->stream_sync(stream, &err), "%s: %s", err.where, err.msg);
    ck_assert_uint_eq(atomic_load(word), 100);
    ck_assert_ptr_null(gpu->call);
    gpu->pinned_free(device, word);
}
END_TEST

/* If streams cannot write values to memory, posts pass through the host. */
START_TEST(posts_arrive_on_streams_that_cannot_write_values)
{
    struct err err = { 0 };
    if (!gpu)
        return;
    setenv("SIMSEARCH_REFUSED_WORDS", "1", 1);
    struct device *other = gpu->open(&(struct device_options){ .arena_bytes = 1 << 20 }, &err);
    ck_assert_msg(other, "%s: %s", err.where, err.msg);
    struct stream *own = gpu->stream_new(other, "test", &err);
    _Atomic uint32_t *word = gpu->pinned_alloc(other, sizeof *word, &err);
    atomic_init(word, 0);
    for (uint32_t number = 1; number <= 100; number++)
        gpu->post(own, word, number);
    ck_assert_msg(gpu->stream_sync(own, &err), "%s: %s", err.where, err.msg);
    ck_assert_uint_eq(atomic_load(word), 100);
    gpu->pinned_free(other, word);
    gpu->stream_free(own);
    gpu->close(other);
}
END_TEST

START_TEST(a_post_to_unpinned_memory_is_refused)
{
    struct err err = { 0 };
    _Atomic uint32_t word = 0;
    if (!gpu)
        return;
    gpu->post(stream, &word, 1);
    ck_assert(!gpu->stream_sync(stream, &err));
    ck_assert_str_eq(err.where, "GPU 0");
}
END_TEST

/* Two devices on one GPU: the second one gets the memory that the first has left. */
START_TEST(an_arena_has_at_most_the_free_memory)
{
    struct err err = { 0 };
    if (!gpu)
        return;
    size_t all_bytes = (size_t)2 << 30;
    struct device_options options = { .arena_bytes = 2 * all_bytes };
    struct device *large = gpu->open(&options, &err);
    ck_assert_msg(large, "%s: %s", err.where, err.msg);
    size_t bytes = gpu->memory(large).capacity_bytes;
    ck_assert(bytes > all_bytes / 10 * 9 && bytes < all_bytes);
    struct device *second = gpu->open(&options, &err);
    ck_assert_msg(second, "%s: %s", err.where, err.msg);
    ck_assert(bytes + gpu->memory(second).capacity_bytes < all_bytes);
    ck_assert_ptr_null(gpu->alloc(large, NULL, all_bytes, &err));
    ck_assert_str_eq(err.where, "memory");
    gpu->close(second);
    gpu->close(large);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("gpu_device");
    tcase_set_tags(cases, THREADS);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, stream_positions_are_posted_without_host_functions);
    tcase_add_test(cases, posts_arrive_on_streams_that_cannot_write_values);
    tcase_add_test(cases, a_post_to_unpinned_memory_is_refused);
    tcase_add_test(cases, an_arena_has_at_most_the_free_memory);
    Suite *s = suite_create("exec/cuda/device");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
