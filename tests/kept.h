/* tests/kept.h - compares a test's answers with those that a file of tests/golden keeps.
 *
 * An answer is several lines, of which the first begins with "$" and names the question. Numbers
 * must agree to 1e-9. */
#ifndef TESTS_KEPT_H
#define TESTS_KEPT_H

#include <stdbool.h>

/* Reads the file. Call it once before the tests. */
void kept_read(const char *path);
/* Fails the test unless the file has this answer to its question. */
void kept_check(const char *answer);
/* Whether the environment has SIMSEARCH_GOLDEN=write; then kept_write writes all answers again. */
bool kept_is_written(void);
void kept_write(const char *answers);

#endif
