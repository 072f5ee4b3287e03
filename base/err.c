#include "base/err.h"

#include "base/plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool err_set(struct err *err, enum err_code code, const char *where, const char *fmt, ...)
{
    if (err->code != ERR_NONE)
        return false;
    err->code = code;
    snprintf(err->where, sizeof err->where, "%s", where);
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    plain_make(err->where);
    plain_make(err->msg);
    return false;
}

bool err_pass(struct err *err, const struct err *from)
{
    if (err->code == ERR_NONE)
        *err = *from;
    return false;
}

void err_prefix(struct err *err, const char *outer)
{
    size_t inner_length = strlen(err->where);
    size_t room = sizeof err->where - 1 - inner_length;
    size_t outer_length = strlen(outer);
    if (outer_length > room)
        outer_length = room;
    memmove(err->where + outer_length, err->where, inner_length + 1);
    memcpy(err->where, outer, outer_length);
    plain_make(err->where);
}

bool err_within(struct err *err, const char *key)
{
    if (*err->where && *err->where != '[')
        err_prefix(err, ".");
    err_prefix(err, key);
    return false;
}

bool err_within_item(struct err *err, const char *key, size_t index)
{
    char item[160];
    snprintf(item, sizeof item, "%s[%zu]", key, index);
    return err_within(err, item);
}
