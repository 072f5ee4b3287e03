/* Loads OpenBLAS at run time and makes it choose the kernels of this processor. */
#include "kernels/host/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The constants of cblas.h that are used here; they have these values in every implementation. */
enum { CBLAS_ROW_MAJOR = 101, CBLAS_AS_STORED = 111, CBLAS_TRANSPOSED = 112 };
typedef void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k,
                         float alpha, const float *a, int a_stride, const float *b, int b_stride,
                         float beta, float *c, int c_stride);

static int transpose_word(bool is_transposed)
{
    return is_transposed ? CBLAS_TRANSPOSED : CBLAS_AS_STORED;
}

static void openblas_product(const struct blas *blas, const struct product *p)
{
    cblas_sgemm *sgemm = (cblas_sgemm *)blas->sgemm;
    sgemm(CBLAS_ROW_MAJOR, transpose_word(p->a_is_transposed), transpose_word(p->b_is_transposed),
          (int)p->m, (int)p->n, (int)p->k, p->alpha, p->a, (int)p->a_stride, p->b, (int)p->b_stride,
          p->beta, p->c, (int)p->c_stride);
}

/* ISO C cannot convert dlsym's object pointer to a function pointer; POSIX gives both the same
 * bits. */
static void (*find_function(void *library, const char *name))(void)
{
    void *object = dlsym(library, name);
    void (*function)(void);
    memcpy(&function, &object, sizeof function);
    return function;
}

/* The best core type of a machine, from its instruction sets; NULL: leave the choice to
 * OpenBLAS. */
static const char *best_core_type(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

/* Whether the library mistook this processor for the oldest type, as it does with processors newer
 * than itself. Products are then five times slower. For example 0.3.21 mistakes Sapphire Rapids
 * under a hypervisor for Prescott. */
static bool is_misjudged(void *library)
{
    char *(*core_name)(void) = (char *(*)(void))find_function(library, "openblas_get_corename");
    return core_name && strcmp(core_name(), "Prescott") == 0 && best_core_type();
}

static void *load(void)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    return library ? library : dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
}

/* Loads OpenBLAS. If it mistook the processor, sets the right core type and loads it again, because
 * OpenBLAS detects the processor while it loads. */
static void *load_for_this_machine(void)
{
    void *library = load();
    if (!library || !is_misjudged(library))
        return library;
    dlclose(library);
    setenv("OPENBLAS_CORETYPE", best_core_type(), 0);
    return load();
}

static bool find(struct blas *out, struct err *err)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void *library = load_for_this_machine();
    if (!library)
        return err_set(err, ERR_UNAVAILABLE, "openblas", "libopenblas.so.0 is not installed");
    void (*sgemm)(void) = find_function(library, "cblas_sgemm");
    void (*set_threads)(void) = find_function(library, "openblas_set_num_threads");
    if (!sgemm || !set_threads)
        return err_set(err, ERR_UNAVAILABLE, "openblas", "libopenblas.so.0 lacks cblas_sgemm");
    ((void (*)(int))set_threads)(1); /* in case the library was loaded before the variable was
                                      * set */
    *out = (struct blas){ .name = "openblas", .product = openblas_product, .sgemm = sgemm };
    return true;
}

/* Protected by a lock: ranks may be threads, but the environment and the loaded library belong to
 * the process. */
bool openblas_find(struct blas *out, struct err *err)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    bool ok = find(out, err);
    pthread_mutex_unlock(&mutex);
    return ok;
}

void openblas_describe(char *text, size_t size)
{
    void *library = load();
    char *(*config)(void) =
        library ? (char *(*)(void))find_function(library, "openblas_get_config") : NULL;
    char *(*core_name)(void) =
        library ? (char *(*)(void))find_function(library, "openblas_get_corename") : NULL;
    snprintf(text, size, "%s%s%s", config ? config() : "OpenBLAS",
             core_name ? ", kernels for " : "", core_name ? core_name() : "");
}
