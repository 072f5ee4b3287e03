/* base/err.h - error codes and messages.
 *
 * Functions that can fail take `struct err *err` last and return false or NULL after filling it.
 * The innermost failure is reported: err_set() on an error that is already set keeps the first
 * message, so callers may add context with err_prefix() but cannot hide the cause. `err` is never
 * NULL. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

enum err_code {
    ERR_NONE = 0,
    ERR_USAGE,       /* command line: unknown flag, missing argument */
    ERR_INPUT,       /* a file or value the user gave is wrong */
    ERR_INFEASIBLE,  /* well-formed, but no plan satisfies it */
    ERR_UNAVAILABLE, /* a backend, library or device is not present */
    ERR_SYSTEM,      /* a system call, CUDA, NCCL or MPI failed */
    ERR_DIVERGED,    /* training diverged: a loss or gradient is not finite, or a loss spiked */
};

struct err {
    enum err_code code;
    char where[256]; /* "h200.json:12: links[0].bandwidth", or "" */
    char msg[512];   /* one sentence, lower case, no full stop */
};

/* Always returns false, so that `return err_set(...)` reads as one step. Bytes that are not plain
 * (base/plain.h) become '?', because the text may quote a file and is shown on a terminal. */
bool err_set(struct err *err, enum err_code code, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Copies the failure `from` with err_set(). Returns false. */
bool err_pass(struct err *err, const struct err *from);

/* Prepends `outer` ("groups[0].", "h200.json: ") to `where`; keeps code and msg. If both do not
 * fit, the end of `outer` is cut off. */
void err_prefix(struct err *err, const char *outer);

/* Puts `key`, or item `index` of the list `key`, in front of `where`: "key", "key.inner",
 * "key[2].inner". Both return false. */
bool err_within(struct err *err, const char *key);
bool err_within_item(struct err *err, const char *key, size_t index);

#endif
