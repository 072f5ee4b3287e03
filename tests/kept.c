#include "tests/kept.h"

#include "base/file.h"
#include "tests/check_ok.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

static const char *path;
static char *text;

void kept_read(const char *of)
{
    struct err err = { 0 };
    size_t length;
    path = of;
    text = file_read(path, MOST_BYTES, &length, &err);
}

bool kept_is_written(void)
{
    const char *wish = getenv("SIMSEARCH_GOLDEN");
    return wish && strcmp(wish, "write") == 0;
}

void kept_write(const char *answers)
{
    struct err err = { 0 };
    check_ok(file_write(path, answers, strlen(answers), &err), &err);
}

/* Whether the texts agree up to the end of the line; moves both behind it. */
static bool line_is_equal(const char **got, const char **expected)
{
    while (**got && **expected && **got != '\n') {
        char *got_end, *expected_end;
        bool are_numbers = isdigit((unsigned char)**got) && isdigit((unsigned char)**expected);
        double left = are_numbers ? strtod(*got, &got_end) : 0;
        double right = are_numbers ? strtod(*expected, &expected_end) : 0;
        if (are_numbers ? fabs(left - right) > 1e-9 * fabs(right) : **got != **expected)
            return false;
        *got = are_numbers ? got_end : *got + 1;
        *expected = are_numbers ? expected_end : *expected + 1;
    }
    return *(*got)++ == *(*expected)++;
}

/* The answer in the file with the same first line, or NULL. */
static const char *find(const char *answer)
{
    size_t length = strcspn(answer, "\n") + 1;
    for (const char *at = text; at && *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, answer, length) == 0)
            return at;
    return NULL;
}

void kept_check(const char *answer)
{
    const char *expected = find(answer);
    ck_assert_msg(expected != NULL, "%s has no answer to %s", path, answer);
    for (const char *got = answer; *got;) {
        const char *got_line = got, *line = expected;
        ck_assert_msg(line_is_equal(&got, &expected), "%.*s\nexpected %.*s\nfound    %.*s",
                      (int)strcspn(answer, "\n"), answer, (int)strcspn(line, "\n"), line,
                      (int)strcspn(got_line, "\n"), got_line);
    }
    ck_assert_msg(*expected == '$' || !*expected, "a line is missing: %s", answer);
}
