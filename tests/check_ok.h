/* tests/check_ok.h - fails a test with the message of `err` if a call did not succeed. */
#ifndef TESTS_CHECK_OK_H
#define TESTS_CHECK_OK_H

#include "base/err.h"
#include "tests/testing.h"

static inline void check_ok(bool ok, const struct err *err)
{
    ck_assert_msg(ok, "%s: %s", err->where, err->msg);
}

#endif
