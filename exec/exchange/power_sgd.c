/* PowerSGD (Vogels, Karimireddy and Jaggi 2019, algorithms 1 and 2). For each compressed matrix M,
 * with the right factor Q of the previous step: P = M Q is summed over ranks and orthonormalised, Q
 * = M^T P is summed, and P Q^T approximates the sum of the ranks' M. The three products are those
 * of a linear layer with weight Q^T. The error of each rank's own product is added to its next
 * gradient. */
#include "sim/exchange/powersgd.h"

#include "exec/exchange/methods.h"

/* A tensor's offsets in the gradients, in the left factors and in the right factors. */
struct factored {
    long rows, columns; /* if rows is 0 the tensor is not compressed, and columns is its number of
                           elements */
    size_t at, left, right;
};

struct power_factors {
    struct factored *tensors;
    int count;
    size_t left_elements, right_elements;
    float *left, *right; /* left: P of all tensors, and the uncompressed tensors; right: Q^T of all
                            tensors */
};

static long elements_of(const struct factored *tensor)
{
    return tensor->rows > 0 ? tensor->rows * tensor->columns : tensor->columns;
}

static void add_tensor(struct exchanger *e, const struct exchange_tensor *tensor, size_t at)
{
    struct power_factors *powers = e->powers;
    bool is_compressed = powersgd_compresses(&e->exchange, tensor);
    long rows = (long)tensor->rows, columns = (long)tensor->columns;
    long rank = e->exchange.rank;
    powers->tensors[powers->count++] =
        (struct factored){ .rows = is_compressed ? rows : 0,
                           .columns = is_compressed ? columns : rows * columns,
                           .at = at,
                           .left = powers->left_elements,
                           .right = powers->right_elements };
    powers->left_elements += (size_t)(is_compressed ? rows * rank : rows * columns);
    powers->right_elements += (size_t)(is_compressed ? columns * rank : 0);
}

static void lay_out(struct exchanger *e)
{
    size_t at = 0, count = 0;
    for (int i = 0; i < e->load.num_tensors; i++)
        count += (size_t)e->load.tensors[i].count;
    e->powers = ARENA_NEW(&e->arena, struct power_factors);
    e->powers->tensors = ARENA_ARRAY(&e->arena, struct factored, count);
    for (int i = 0; i < e->load.num_tensors; i++)
        for (int j = 0; j < (int)e->load.tensors[i].count; j++) {
            add_tensor(e, &e->load.tensors[i], at);
            at += (size_t)elements_of(&e->powers->tensors[e->powers->count - 1]);
        }
}

/* Draws the initial right factors, the same on all ranks. */
static bool draw_right(struct exchanger *e, struct err *err)
{
    struct power_factors *powers = e->powers;
    float *drawn = ARENA_ARRAY(&e->arena, float, powers->right_elements);
    draw_normal(&e->on.draw, 1, 0, (long)powers->right_elements, drawn);
    exchanger_copy(e, powers->right, drawn, powers->right_elements);
    return e->on.device_api->stream_sync(e->on.stream, err);
}

bool power_open(struct exchanger *e, struct err *err)
{
    lay_out(e);
    struct power_factors *powers = e->powers;
    if (!(e->memory = exchanger_take(e, e->elements, err)) ||
        !(powers->left = exchanger_take(e, powers->left_elements, err)))
        return false;
    if (powers->right_elements == 0)
        return true;
    powers->right = exchanger_take(e, powers->right_elements, err);
    return powers->right && draw_right(e, err);
}

int power_kept(const struct exchanger *e, struct kept *out)
{
    int count = memory_kept(e, out);
    out[count] = (struct kept){ e->powers->right, e->powers->right_elements };
    return count + (e->powers->right_elements > 0);
}

double power_memory_elements(const struct exchange *exchange, const struct exchange_load *load,
                             const struct exchange_ranks *ranks)
{
    (void)ranks;
    double factors = exchange_method_of(exchange)->compressor->message_bytes(exchange, load);
    return exchange_elements(load) + factors / load->element_bytes;
}

/* --- a step ------------------------------------------------------------------------------- */

static void multiply_left(struct exchanger *e, const struct factored *tensor)
{
    const struct power_factors *powers = e->powers;
    float *x = e->memory + tensor->at, *y = powers->left + tensor->left;
    if (tensor->rows == 0) {
        exchanger_copy(e, y, x, (size_t)tensor->columns);
        return;
    }
    struct linear_forward product = { .rows = tensor->rows,
                                      .out = e->exchange.rank,
                                      .in = tensor->columns,
                                      .x = x,
                                      .weight = powers->right + tensor->right,
                                      .y = y };
    e->on.kernel_api->linear_forward(e->on.kernels, e->on.stream, &product);
}

static void multiply_right(struct exchanger *e, const struct factored *tensor)
{
    const struct power_factors *powers = e->powers;
    float *left = powers->left + tensor->left;
    if (tensor->rows == 0)
        return;
    struct orthogonalise_args basis = { tensor->rows, e->exchange.rank, left };
    struct linear_weight_gradient product = { .rows = tensor->rows,
                                              .out = e->exchange.rank,
                                              .in = tensor->columns,
                                              .dy = left,
                                              .x = e->memory + tensor->at,
                                              .dweight = powers->right + tensor->right };
    e->on.kernel_api->orthogonalise(e->on.kernels, e->on.stream, &basis);
    e->on.kernel_api->linear_weight_gradient(e->on.kernels, e->on.stream, &product);
}

/* Writes P Q^T, or the sum of an uncompressed tensor. */
static void multiply_out(struct exchanger *e, const struct factored *tensor, float *out)
{
    const struct power_factors *powers = e->powers;
    const float *left = powers->left + tensor->left;
    if (tensor->rows == 0) {
        exchanger_copy(e, out + tensor->at, left, (size_t)tensor->columns);
        return;
    }
    struct linear_input_gradient product = { .rows = tensor->rows,
                                             .out = e->exchange.rank,
                                             .in = tensor->columns,
                                             .dy = left,
                                             .weight = powers->right + tensor->right,
                                             .dx = out + tensor->at };
    e->on.kernel_api->linear_input_gradient(e->on.kernels, e->on.stream, &product);
}

/* Keeps the error of this rank's own approximation of its matrices. It overwrites `products`.
 * Uncompressed tensors have no error. */
static void remember_rest(struct exchanger *e, float *products)
{
    for (int i = 0; i < e->powers->count; i++) {
        const struct factored *tensor = &e->powers->tensors[i];
        float *memory = e->memory + tensor->at;
        if (tensor->rows == 0) {
            exchanger_clear(e, memory, (size_t)tensor->columns);
            continue;
        }
        multiply_out(e, tensor, products);
        exchanger_combine(e, 1, memory, -1, products + tensor->at, memory,
                          (size_t)elements_of(tensor));
    }
}

void power_sum(struct exchanger *e, float *gradients)
{
    struct power_factors *powers = e->powers;
    struct group *all = e->on.groups->all;
    bool remembers = e->exchange.memory == MEMORY_ON;
    if (remembers)
        exchanger_add(e, e->memory, gradients, e->elements);
    else
        exchanger_copy(e, e->memory, gradients, e->elements);
    for (int i = 0; i < powers->count; i++)
        multiply_left(e, &powers->tensors[i]);
    issue_all_reduce(e, all, (struct span){ powers->left, powers->left_elements });
    exchanger_clear(e, powers->right, powers->right_elements);
    for (int i = 0; i < powers->count; i++)
        multiply_right(e, &powers->tensors[i]);
    if (remembers)
        remember_rest(e, gradients);
    if (powers->right_elements > 0)
        issue_all_reduce(e, all, (struct span){ powers->right, powers->right_elements });
    for (int i = 0; i < powers->count; i++)
        multiply_out(e, &powers->tensors[i], gradients);
}
