#include "tests/testing.h"

#include "exec/device/device.h"
#include "tests/draw.h"
#include "tests/exec/host_device.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const struct device_api *const host = &device_host;

START_TEST(the_high_water_mark_is_the_maximum_in_use)
{
    struct device *device = open_device(0, false);
    struct err err = { 0 };
    void *a = host->alloc(device, NULL, 1000, &err); /* the allocation takes 1024 bytes */
    void *b = host->alloc(device, NULL, 256, &err);
    host->free(device, NULL, a);
    void *c = host->alloc(device, NULL, 512, &err);
    struct region_sizes sizes = host->memory(device);
    ck_assert_uint_eq(sizes.used_bytes, 256 + 512);
    ck_assert_uint_eq(sizes.high_water_bytes, 1024 + 256);
    ck_assert_uint_eq(sizes.extent_bytes, 1024 + 256);
    ck_assert_ptr_eq(c, a);
    host->free(device, NULL, b);
    host->free(device, NULL, c);
    ck_assert_uint_eq(host->memory(device).used_bytes, 0);
    host->close(device);
}
END_TEST

START_TEST(memory_that_does_not_fit_is_refused_with_sizes)
{
    struct device *device = open_device(0, false);
    struct err err = { 0 };
    ck_assert_ptr_null(host->alloc(device, NULL, (size_t)2 << 20, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "1048576"));
    struct err huge = { 0 };
    ck_assert_ptr_null(host->alloc(device, NULL, SIZE_MAX, &huge));
    host->close(device);
}
END_TEST

struct poison_check {
    const unsigned char *memory;
    int *good;
};

static void check_byte(void *args)
{
    const struct poison_check *check = args;
    *check->good += check->memory[0] == 1;
}

/* The memory is freed while work that reads it is still queued. */
START_TEST(freed_memory_is_poisoned_in_stream_order)
{
    struct device *device = open_device(0, true);
    struct stream *stream = new_stream(device);
    struct err err = { 0 };
    unsigned char *memory = host->alloc(device, stream, 64, &err);
    int good = 0;
    sync_stream(stream);
    float value;
    memcpy(&value, memory, sizeof value);
    ck_assert(isnan(value));
    host->fill(stream, memory, 1, 64);
    host->call(stream, sleep_5_ms, NULL, 0);
    host->call(stream, check_byte, &(struct poison_check){ memory, &good },
               sizeof(struct poison_check));
    host->free(device, stream, memory);
    sync_stream(stream);
    ck_assert_int_eq(good, 1);
    ck_assert_int_eq(memory[0], 0xff);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

/* Allocations never overlap, and the size in use is the sum of their sizes. When everything is
 * freed, the whole memory is available again. */
START_TEST(random_allocations_never_overlap)
{
    enum { SLOTS = 60, CAPACITY = 64 * 1024 };
    struct random rng = random_new(told_seed(), 1);
    struct region *region = region_new(CAPACITY);
    size_t at[SLOTS], bytes[SLOTS] = { 0 }, used = 0, most = 0;
    for (int turn = 0; turn < TURNS(4000); turn++) {
        int slot = random_below(&rng, SLOTS);
        if (bytes[slot] > 0) {
            ck_assert_uint_eq(region_give_back(region, at[slot]), bytes[slot]);
            used -= bytes[slot];
            bytes[slot] = 0;
            continue;
        }
        size_t wanted = (size_t)random_below(&rng, 3000);
        if (!region_take(region, wanted, &at[slot]))
            continue;
        bytes[slot] = wanted == 0 ? 256 : (wanted + 255) / 256 * 256;
        used += bytes[slot];
        most = used > most ? used : most;
        ck_assert_uint_eq(at[slot] % REGION_ALIGNMENT, 0);
        ck_assert_uint_le(at[slot] + bytes[slot], CAPACITY);
        for (int other = 0; other < SLOTS; other++)
            if (other != slot && bytes[other] > 0)
                ck_assert(at[slot] + bytes[slot] <= at[other] ||
                          at[other] + bytes[other] <= at[slot]);
        ck_assert_uint_eq(region_sizes(region).used_bytes, used);
    }
    ck_assert_uint_eq(region_sizes(region).high_water_bytes, most);
    for (int slot = 0; slot < SLOTS; slot++)
        if (bytes[slot] > 0)
            region_give_back(region, at[slot]);
    size_t whole;
    ck_assert(region_take(region, CAPACITY, &whole));
    region_free(region);
}
END_TEST

static uint64_t layout_of(struct device *device)
{
    return host->memory(device).layout;
}

/* Memory is allocated in one order and freed in another. The addresses of later allocations depend
 * only on which memory is free. */
START_TEST(equal_free_memory_gives_equal_addresses)
{
    struct err err = { 0 };
    struct device *device = open_device(0, false);
    uint64_t empty = layout_of(device);
    char *a = host->alloc(device, NULL, 1000, &err), *b = host->alloc(device, NULL, 2000, &err);
    uint64_t two = layout_of(device);
    host->free(device, NULL, a);
    uint64_t second = layout_of(device);
    ck_assert(empty != two && two != second && second != empty);
    ck_assert_ptr_eq(host->alloc(device, NULL, 900, &err), a);
    ck_assert(layout_of(device) == two);
    host->free(device, NULL, b);
    host->free(device, NULL, a);
    ck_assert(layout_of(device) == empty);
    host->close(device);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("memory");
    tcase_add_test(tc, the_high_water_mark_is_the_maximum_in_use);
    tcase_add_test(tc, memory_that_does_not_fit_is_refused_with_sizes);
    tcase_add_test(tc, freed_memory_is_poisoned_in_stream_order);
    tcase_add_test(tc, random_allocations_never_overlap);
    tcase_add_test(tc, equal_free_memory_gives_equal_addresses);
    Suite *s = suite_create("exec/device/device: memory");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
