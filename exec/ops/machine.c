#include "exec/ops/machine.h"

void *machine_take(struct machine *m, size_t bytes)
{
    struct err later = { 0 };
    struct err *err = m->err.code == ERR_NONE ? &m->err : &later;
    if (bytes == 0)
        return NULL;
    void *at = m->device_api->alloc(m->device, m->compute, bytes, err);
    if (!at)
        m->device_api->abort(m->device);
    m->taken = (m->taken ^ (uintptr_t)at) * 0x100000001b3; /* FNV-1a's prime */
    return at;
}

void machine_give_back(struct machine *m, void *memory)
{
    if (memory)
        m->device_api->free(m->device, m->compute, memory);
}

size_t machine_bytes(const struct machine *m, double count)
{
    return (size_t)dtype_bytes(m->storage) * (size_t)count;
}

enum element machine_element(const struct machine *m)
{
    return m->storage == DTYPE_FP32   ? ELEMENT_FP32
           : m->storage == DTYPE_FP16 ? ELEMENT_FP16
                                      : ELEMENT_BF16;
}

void machine_follow(struct machine *m, struct stream *stream)
{
    m->device_api->record(m->compute, m->computed);
    m->device_api->wait(stream, m->computed);
}

size_t machine_stream_bytes(const struct machine *m)
{
    return machine_bytes(m, m->dims.norm_tokens * m->dims.hidden);
}
