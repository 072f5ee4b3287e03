/* A note is an event on a CUDA stream whose time the host wants to know. A note's time is measured
 * from a mark, an event whose time on the host's clock is known. */
#include "exec/cuda/device_cuda.h"

#include "base/arena.h"
#include "base/clock.h"

#include <stdlib.h>

/* cudaEventElapsedTime returns milliseconds as a float: one second after the mark its resolution is
 * 60 ns. */
static const double longest_from_mark_s = 1;

struct stream_note {
    cudaEvent_t event;
    double *at_s, *own_s;
    struct stream_note *next;
};

/* --- the clock ---------------------------------------------------------------------------- */

/* Records the mark on the clock stream. That stream is empty, so the event happens at once. */
static void set_mark(struct device *device)
{
    struct stream *stream = device->clock_stream;
    device_check(device, cudaEventRecord(device->mark, stream->cuda), "cudaEventRecord");
    device_check(device, cudaEventSynchronize(device->mark), "cudaEventSynchronize");
    device->mark_s = clock_now_s();
}

bool cuda_clock_open(struct device *device, struct err *err)
{
    device->clock_stream = cuda_stream_new(device, "clock", err);
    if (!device->clock_stream)
        return false;
    device_check(device, cudaEventCreate(&device->mark), "cudaEventCreate");
    set_mark(device);
    return failure_check(&device->failure, err);
}

/* --- notes -------------------------------------------------------------------------------- */

static struct stream_note *take_note(struct device *device)
{
    struct stream_note *note = device->free_notes;
    if (note) {
        device->free_notes = note->next;
        return note;
    }
    note = arena_grow(NULL, sizeof *note);
    *note = (struct stream_note){ 0 };
    device_check(device, cudaEventCreate(&note->event), "cudaEventCreate");
    return note;
}

/* Times that are compared must use the same mark, so the mark moves only while no note is
 * pending. */
void cuda_stream_note(struct stream *stream, double *at_s, double *own_s)
{
    struct device *device = stream->device;
    if (device_is_over(device) || !device_use(device))
        return;
    pthread_mutex_lock(&device->mutex);
    if (device->num_notes == 0 && clock_now_s() - device->mark_s > longest_from_mark_s)
        set_mark(device);
    struct stream_note *note = take_note(device);
    note->at_s = at_s;
    note->own_s = own_s;
    note->next = stream->notes;
    stream->notes = note;
    device->num_notes++;
    device_check(device, cudaEventRecord(note->event, stream->cuda), "cudaEventRecord");
    pthread_mutex_unlock(&device->mutex);
}

static void tell(struct device *device, const struct stream_note *note)
{
    float from_mark_ms = 0;
    if (device_is_over(device))
        return;
    device_check(device, cudaEventElapsedTime(&from_mark_ms, device->mark, note->event),
                 "cudaEventElapsedTime");
    *note->at_s = device->mark_s + 1e-3 * (double)from_mark_ms;
    if (note->own_s)
        *note->own_s = *note->at_s;
}

void cuda_notes_tell(struct stream *stream)
{
    struct device *device = stream->device;
    pthread_mutex_lock(&device->mutex);
    while (stream->notes) {
        struct stream_note *note = stream->notes;
        tell(device, note);
        stream->notes = note->next;
        note->next = device->free_notes;
        device->free_notes = note;
        device->num_notes--;
    }
    pthread_mutex_unlock(&device->mutex);
}

void cuda_notes_release(struct device *device)
{
    while (device->free_notes) {
        struct stream_note *note = device->free_notes;
        device->free_notes = note->next;
        cudaEventDestroy(note->event);
        free(note);
    }
    if (device->mark)
        cudaEventDestroy(device->mark);
}
