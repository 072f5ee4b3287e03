/* tests/exec/host_device.h - creates the host's device, streams and events, and work for streams. A
 * failure to create one of these fails the test. */
#ifndef TESTS_EXEC_HOST_DEVICE_H
#define TESTS_EXEC_HOST_DEVICE_H

#include "exec/device/device.h"

/* Opens a device with an arena of 1 MiB. */
struct device *open_device(double delay_most_s, bool poisons);
struct stream *new_stream(struct device *device);
struct event *new_event(struct device *device);
void sync_stream(struct stream *stream);

/* Work that appends a value to a list, after a pause. */
struct append {
    int *list;
    int *count;
    int value;
};
void append(void *args);
void sleep_5_ms(void *args);

#endif
