#include "kernels/host/attention.h"
#include "kernels/host/round.h"
#include "kernels/host/stored.h"
#include "tests/kernels/numeric.h"
#include "tests/kernels/op_case.h"
#include "tests/kernels/op_cases.h"
#include "tests/testing.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the host as a backend ---------------------------------------------------------------- */

void *op_host_copy_in(void *self, const void *from, size_t bytes)
{
    (void)self;
    void *memory = malloc(bytes ? bytes : 1);
    ck_assert_ptr_nonnull(memory);
    memcpy(memory, from, bytes);
    return memory;
}

void op_host_copy_out(void *self, void *to, const void *from, size_t bytes)
{
    (void)self;
    memcpy(to, from, bytes);
}

void op_host_release(void *self, void *memory)
{
    (void)self;
    free(memory);
}

static size_t host_scratch_bytes(void *self, const struct attention *attention)
{
    (void)self;
    return sizeof(float) * (size_t)flash_attention_scratch(attention);
}

#define X(name, args)                                        \
    static void run_##name(void *self, const struct args *a) \
    {                                                        \
        stored_##name(self, a);                              \
    }
KERNELS(X)
EXCHANGE_KERNELS(X)
#undef X

static struct op_backend host_backend(struct host_kernels *self)
{
    return (struct op_backend){ .name = "host",
                                .self = self,
                                .copy_in = op_host_copy_in,
                                .copy_out = op_host_copy_out,
                                .release = op_host_release,
                                .flash_scratch_bytes = host_scratch_bytes,
                                OP_RUNS };
}

/* --- tensors ------------------------------------------------------------------------------ */

static long elements(const struct tensor *t)
{
    return t->rows * t->width;
}

static size_t element_bytes(const struct tensor *t, enum dtype storage)
{
    switch (t->kind) {
    case VALUES:
        return (size_t)dtype_bytes(storage);
    case FLOATS:
    case POSITIVE:
    case EXACT:
    case TIES:
    case TINY:
        return 4;
    case DOUBLES:
    case IDS:
        return 8;
    case BYTES:
        return 1;
    }
    return 0;
}

static size_t tensor_bytes(const struct tensor *t, enum dtype storage)
{
    return (size_t)elements(t) * element_bytes(t, storage);
}

static void pack_values(enum dtype storage, long n, const float *x, void *out)
{
    if (storage == DTYPE_BF16)
        bf16_pack(n, x, out);
    else if (storage == DTYPE_FP16)
        fp16_pack(n, x, out);
    else
        memcpy(out, x, sizeof *x * (size_t)n);
}

static void unpack_values(enum dtype storage, long n, const void *x, float *out)
{
    if (storage == DTYPE_BF16)
        bf16_unpack(n, x, out);
    else if (storage == DTYPE_FP16)
        fp16_unpack(n, x, out);
    else
        memcpy(out, x, sizeof *out * (size_t)n);
}

/* Random inputs that are exact in 16 bits. */
static float *fresh_floats(struct numeric *numeric, const struct tensor *t, enum dtype storage)
{
    long n = elements(t);
    float *x = numeric_floats(numeric, n, 1);
    void *stored = ARENA_ARRAY(&numeric->arena, float, (size_t)n);
    for (long i = 0; t->kind == POSITIVE && i < n; i++)
        x[i] = 1 + fabsf(x[i]);
    for (long i = 0; t->kind == TINY && i < n; i++)
        x[i] *= 0x1p-130F;
    for (long i = 0; t->kind == TIES && i < n; i++)
        x[i] = fabsf(x[i]) > 2.5F ? copysignf(INFINITY, x[i]) : roundf(2 * x[i]) / 2;
    if (t->kind != VALUES)
        return x;
    pack_values(storage, n, x, stored);
    unpack_values(storage, n, stored, x);
    return x;
}

static int64_t *fresh_ids(struct numeric *numeric, long n)
{
    int64_t *ids = ARENA_ARRAY(&numeric->arena, int64_t, (size_t)n);
    for (long i = 0; i < n; i++)
        ids[i] = random_below(&numeric->random, MOST_ID + 2) - 1;
    return ids;
}

/* Draws the inputs of a case, in fp32 or in their fixed type; NULL for outputs. */
static void draw_inputs(struct numeric *numeric, const struct op_case *c, enum dtype storage,
                        void **inputs)
{
    for (int i = 0; i < c->count; i++) {
        const struct tensor *t = &c->tensors[i];
        if (t->role == OUT)
            inputs[i] = NULL;
        else if (t->kind == IDS)
            inputs[i] = fresh_ids(numeric, elements(t));
        else if (t->kind == DOUBLES || t->kind == BYTES)
            inputs[i] = ARENA_ARRAY(&numeric->arena, double, (size_t)elements(t));
        else
            inputs[i] = fresh_floats(numeric, t, storage);
    }
}

static void *tensor_in(struct numeric *numeric, const struct tensor *t, enum dtype storage,
                       const struct op_backend *backend, const void *input)
{
    size_t bytes = tensor_bytes(t, storage);
    void *stored = ARENA_ARRAY(&numeric->arena, char, bytes);
    if (!input)
        memset(stored, 0xff, bytes);
    else if (t->kind == VALUES)
        pack_values(storage, elements(t), input, stored);
    else
        memcpy(stored, input, bytes);
    return backend->copy_in(backend->self, stored, bytes);
}

/* Runs a case from its inputs. out[i] gets the stored contents of tensor i. */
static void run_case(struct numeric *numeric, const struct op_case *c, enum dtype storage,
                     const struct op_backend *backend, void *const *inputs, void **out)
{
    void *at[MOST_TENSORS];
    for (int i = 0; i < c->count; i++)
        at[i] = tensor_in(numeric, &c->tensors[i], storage, backend, inputs[i]);
    c->run(c, backend, at);
    for (int i = 0; i < c->count; i++) {
        size_t bytes = tensor_bytes(&c->tensors[i], storage);
        out[i] = ARENA_ARRAY(&numeric->arena, char, bytes);
        backend->copy_out(backend->self, out[i], at[i], bytes);
        backend->release(backend->self, at[i]);
    }
}

/* --- comparing ---------------------------------------------------------------------------- */

/* Converts a tensor to doubles. Not for ids and bytes. */
static double *as_doubles(struct numeric *numeric, const struct tensor *t, enum dtype storage,
                          const void *stored)
{
    long n = elements(t);
    if (t->kind == DOUBLES) {
        double *copy = ARENA_ARRAY(&numeric->arena, double, (size_t)n);
        memcpy(copy, stored, sizeof *copy * (size_t)n);
        return copy;
    }
    float *x = numeric_zeros(numeric, n);
    unpack_values(t->kind == VALUES ? storage : DTYPE_FP32, n, stored, x);
    return numeric_doubles(numeric, n, x);
}

static double root_mean_square(long n, const double *x, const double *less)
{
    double sum = 0;
    for (long i = 0; i < n; i++) {
        double value = less ? x[i] - less[i] : x[i];
        sum += value * value;
    }
    return sqrt(sum / (double)n);
}

/* The largest relative rounding error of the storage type: half a unit in the last place of 1. */
static double rounding_of(enum dtype storage)
{
    return storage == DTYPE_BF16 ? 0x1p-8 : storage == DTYPE_FP16 ? 0x1p-11 : 0x1p-24;
}

/* Errors that are allowed in addition to the host's. For a tensor the error is relative to its root
 * mean square, for a row to its largest value. */
struct allowance {
    double root_mean_square, row;
};

static struct allowance allowance_of(const struct op_case *c, enum dtype storage)
{
    double rounding = rounding_of(storage), walk = sqrt(c->terms);
    return (struct allowance){ c->roundings * rounding + (32 + walk) * 0x1p-25,
                               4 * rounding + (128 + 4 * walk) * 0x1p-25 };
}

/* If a condition does not hold, makes the caller return false with a message. */
#define CHECK(is_true, numeric, err, format, ...)                                 \
    do {                                                                          \
        if (!(is_true))                                                           \
            return err_set(err, ERR_INPUT, "", format "; SEED=%llu", __VA_ARGS__, \
                           (unsigned long long)(numeric)->seed);                  \
    } while (0)

static double largest_error(long n, const double *x, const double *exact)
{
    double worst = 0;
    for (long i = 0; i < n; i++) {
        double error = fabs(x[i] - exact[i]);
        worst = error <= worst ? worst : error; /* true also for NaN */
    }
    return worst;
}

/* Compares the error of each row; `spared` is an additional error that is allowed in every row. */
static bool check_rows(struct numeric *numeric, const struct op_case *c, const struct tensor *t,
                       const double *got, const double *exact, double allowed, double spared,
                       struct err *err)
{
    double size = root_mean_square(elements(t), exact, NULL);
    for (long row = 0; row < t->rows; row++) {
        double largest = size;
        for (long i = row * t->width; i < (row + 1) * t->width; i++)
            largest = fmax(largest, fabs(exact[i]));
        double worst = largest_error(t->width, got + row * t->width, exact + row * t->width);
        CHECK(worst <= allowed * largest + spared, numeric, err,
              "%s, %ld x %ld %s: row %ld has an error of %g for values up to %g", c->name, t->rows,
              t->width, t->what, row, worst, largest);
    }
    return true;
}

struct results {
    void *exact[MOST_TENSORS], *host[MOST_TENSORS], *got[MOST_TENSORS], *again[MOST_TENSORS];
};

static bool check_tensor(struct numeric *numeric, const struct op_case *c, enum dtype storage,
                         const struct results *results, int i, struct err *err)
{
    const struct tensor *t = &c->tensors[i];
    struct allowance allowed = allowance_of(c, storage);
    double *exact = as_doubles(numeric, t, DTYPE_FP32, results->exact[i]);
    double *host = as_doubles(numeric, t, storage, results->host[i]);
    double *got = as_doubles(numeric, t, storage, results->got[i]);
    long n = elements(t);
    double size = root_mean_square(n, exact, NULL);
    double error = root_mean_square(n, got, exact), host_error = root_mean_square(n, host, exact);
    if (!check_rows(numeric, c, t, got, exact, allowed.row, 2 * largest_error(n, host, exact), err))
        return false;
    CHECK(error <= 1.5 * host_error + allowed.root_mean_square * size, numeric, err,
          "%s, %ld x %ld %s: root mean square error %g, the host's %g, root mean square value %g",
          c->name, t->rows, t->width, t->what, error, host_error, size);
    return true;
}

static bool is_exact_float(enum tensor_kind kind)
{
    return kind == EXACT || kind == TIES || kind == TINY;
}

/* Whether bits are equal; all NaN count as equal. */
static bool has_bits_of(const struct tensor *t, size_t bytes, const void *got, const void *host)
{
    const float *x = got, *y = host;
    if (!is_exact_float(t->kind))
        return memcmp(got, host, bytes) == 0;
    for (long i = 0; i < elements(t); i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i])))
            return false;
    return true;
}

static bool check_results(struct numeric *numeric, const struct op_case *c, enum dtype storage,
                          const struct results *results, struct err *err)
{
    for (int i = 0; i < c->count; i++) {
        const struct tensor *t = &c->tensors[i];
        size_t bytes = tensor_bytes(t, storage);
        bool is_exact = t->role == IN || t->kind == BYTES || is_exact_float(t->kind);
        CHECK(memcmp(results->got[i], results->again[i], bytes) == 0, numeric, err,
              "%s: a second run gives other bits of %s", c->name, t->what);
        CHECK(!is_exact || has_bits_of(t, bytes, results->got[i], results->host[i]), numeric, err,
              "%s: %s has other bits than the host's", c->name, t->what);
        if (!is_exact && !check_tensor(numeric, c, storage, results, i, err))
            return false;
    }
    return true;
}

/* --- cases -------------------------------------------------------------------------------- */

static const enum dtype storages[] = { DTYPE_FP32, DTYPE_BF16, DTYPE_FP16 };

static int cases_of_a_storage(void)
{
    int count;
    op_cases(&count);
    return count;
}

int op_case_count(void)
{
    return LENGTH(storages) * cases_of_a_storage();
}

enum dtype op_case_storage(int index)
{
    return storages[index / cases_of_a_storage()];
}

bool op_case_is_drawn(int index, uint64_t seed)
{
    int count = cases_of_a_storage();
    uint64_t turn = (uint64_t)(index % count + index / count);
    return turn % LENGTH(storages) == seed % LENGTH(storages);
}

const char *op_case_name(int index)
{
    int count;
    const struct op_case *cases = op_cases(&count);
    return cases[index % count].name;
}

bool op_case_holds(int index, const struct op_backend *backend, struct err *err)
{
    int count;
    const struct op_case *cases = op_cases(&count);
    struct op_case c = cases[index % count];
    enum dtype storage = op_case_storage(index);
    char name[80];
    snprintf(name, sizeof name, "%s in %s", c.name, dtype_names[storage]);
    c.name = name;
    struct numeric numeric = numeric_begin((uint64_t)(index % count));
    struct host_kernels plain = { own_blas, DTYPE_FP32 }, stored = { own_blas, storage };
    struct op_backend plain_host = host_backend(&plain), stored_host = host_backend(&stored);
    struct results results;
    void *inputs[MOST_TENSORS];
    draw_inputs(&numeric, &c, storage, inputs);
    run_case(&numeric, &c, DTYPE_FP32, &plain_host, inputs, results.exact);
    run_case(&numeric, &c, storage, &stored_host, inputs, results.host);
    run_case(&numeric, &c, storage, backend, inputs, results.got);
    run_case(&numeric, &c, storage, backend, inputs, results.again);
    bool ok = check_results(&numeric, &c, storage, &results, err);
    numeric_end(&numeric);
    return ok;
}

void op_case_check(int index, const struct op_backend *backend)
{
    struct err err = { 0 };
    if (!op_case_holds(index, backend, &err))
        ck_abort_msg("%s", err.msg);
}

void op_case_run(int index, const struct op_backend *backend)
{
    int count;
    const struct op_case *cases = op_cases(&count);
    const struct op_case *c = &cases[index % count];
    enum dtype storage = op_case_storage(index);
    struct numeric numeric = numeric_begin((uint64_t)(index % count));
    void *inputs[MOST_TENSORS], *out[MOST_TENSORS];
    draw_inputs(&numeric, c, storage, inputs);
    run_case(&numeric, c, storage, backend, inputs, out);
    numeric_end(&numeric);
}
