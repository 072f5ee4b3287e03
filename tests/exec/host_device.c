#include "tests/exec/host_device.h"

#include "tests/testing.h"

#include <time.h>

struct device *open_device(double delay_most_s, bool poisons)
{
    struct err err = { 0 };
    struct device *device = device_host.open(&(struct device_options){ .arena_bytes = 1 << 20,
                                                                       .poisons = poisons,
                                                                       .delay_most_s = delay_most_s,
                                                                       .delay_seed = 7 },
                                             &err);
    ck_assert_msg(device, "%s", err.msg);
    return device;
}

struct stream *new_stream(struct device *device)
{
    struct err err = { 0 };
    struct stream *stream = device_host.stream_new(device, "test", &err);
    ck_assert_msg(stream, "%s", err.msg);
    return stream;
}

struct event *new_event(struct device *device)
{
    struct err err = { 0 };
    return device_host.event_new(device, &err);
}

void sync_stream(struct stream *stream)
{
    struct err err = { 0 };
    ck_assert_msg(device_host.stream_sync(stream, &err), "%s", err.msg);
}

void append(void *args)
{
    struct append *a = args;
    a->list[(*a->count)++] = a->value;
}

void sleep_5_ms(void *args)
{
    (void)args;
    nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}
