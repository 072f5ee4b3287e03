/* A rank's compute and collectives on two streams, so that they can be timed alone and together. */
#include "calibration/measure/host_pair.h"

#include "base/length.h"
#include "calibration/measure/host_comm.h"
#include "exec/device/kernels.h"

const char *const host_work_names[NUM_HOST_WORKS + 1] = { "products", "attention", "sums", NULL };

static long area_of(const struct host_pair *p)
{
    return p->host->load->side * p->host->load->side;
}

/* The sizes of attention over one sequence. Its queries, keys and values lie in the array of the
 * products' first matrix and do not fill it. */
static struct attention attention_of(const struct host_pair *p)
{
    enum { HEAD_DIM = 64 };
    long heads = p->host->load->side / 256;
    return (struct attention){ .sequences = 1,
                               .seq = p->host->load->side / 4,
                               .heads = heads,
                               .kv_heads = heads,
                               .head_dim = HEAD_DIM };
}

void host_pair_work(const struct host_pair *p)
{
    const struct kernel_api *api = p->host->kernel_api;
    long side = p->host->load->side;
    switch (p->work) {
    case WORK_PRODUCTS:
        api->linear_forward(p->kernels, p->compute,
                            &(struct linear_forward){ side, side, side, p->matrix, p->matrix, NULL,
                                                      p->product, NULL });
        break;
    case WORK_ATTENTION:
        api->flash_forward(
            p->kernels, p->compute,
            &(struct flash_forward){ attention_of(p), p->matrix, p->product, p->sums, p->scratch });
        break;
    case WORK_SUMS:
        api->sum_into(p->kernels, p->compute,
                      &(struct sum_into){ area_of(p), p->matrix, p->product });
        break;
    case NUM_HOST_WORKS:
        break;
    }
}

/* Issues a collective. It runs in place: gathers and scatters use this rank's part of the same
 * array. */
void host_pair_exchange(const struct host_pair *p)
{
    bool has_parts = p->collective != COMM_ALL_REDUCE;
    size_t count = p->host->load->exchanged / (has_parts ? (size_t)p->group->size : 1);
    float *own = p->values + (has_parts ? (size_t)p->group->index * count : 0);
    struct comm_call call = { .kind = p->collective,
                              .group = p->group,
                              .stream = p->comm,
                              .in = p->collective == COMM_ALL_GATHER ? own : p->values,
                              .out = p->collective == COMM_REDUCE_SCATTER ? own : p->values,
                              .count = count,
                              .element = ELEMENT_FP32,
                              .reduction = REDUCTION_MAX };
    p->host->comm_api->issue(&call);
}

/* --- opening and closing ------------------------------------------------------------------- */

static void *take(struct host_pair *p, size_t bytes, struct err *err)
{
    return p->host->api->alloc(p->host->device, p->compute, bytes, err);
}

/* Converts the random numbers to the device's storage type. */
static void pack_values(const struct host_pair *p, void *to)
{
    long count = (long)p->host->load->exchanged;
    long all = area_of(p) < count ? area_of(p) : count;
    p->host->kernel_api->pack(p->kernels, p->compute, &(struct pack){ all, p->values, to });
}

static bool take_memory(struct host_pair *p, struct err *err)
{
    struct attention attention = attention_of(p);
    size_t bytes = (size_t)area_of(p) * (size_t)precision_bytes((int)p->host->precision);
    size_t scratch = p->host->kernel_api->flash_scratch_bytes(p->kernels, &attention);
    size_t sums = (size_t)(attention.seq * attention.heads) * sizeof(float);
    if (!(p->values = host_random_values(p->host, p->host->load->exchanged, err)) ||
        !(p->matrix = take(p, bytes, err)) || !(p->product = take(p, bytes, err)) ||
        !(p->scratch = take(p, scratch + 1, err)) || !(p->sums = take(p, sums, err)))
        return false;
    p->host->api->fill(p->compute, p->matrix, 0, bytes);
    pack_values(p, p->matrix);
    p->host->api->fill(p->compute, p->product, 0, bytes);
    return p->host->api->stream_sync(p->compute, err);
}

bool host_pair_open(struct host_rank *host, struct host_pair *p, struct err *err)
{
    enum dtype storage = precision_value_dtype((int)host->precision);
    *p = (struct host_pair){ .host = host, .group = host->world, .collective = COMM_ALL_REDUCE };
    return (p->kernels = host->kernel_api->open(host->device, storage, err)) &&
           (p->compute = host->api->stream_new(host->device, "compute", err)) &&
           (p->comm = host->api->stream_new(host->device, "comm", err)) && take_memory(p, err);
}

void host_pair_close(struct host_pair *p)
{
    void *memories[] = { p->matrix, p->product, p->scratch, p->sums, p->values };
    for (size_t i = 0; i < LENGTH(memories); i++)
        if (memories[i])
            p->host->api->free(p->host->device, NULL, memories[i]);
    p->host->api->stream_free(p->compute);
    p->host->api->stream_free(p->comm);
    if (p->kernels)
        p->host->kernel_api->close(p->kernels);
}
