/* tests/cli/arithmetic.h - evaluates a formula with numbers filled in: "2 x (8 - 1) x 676 MB / 50
 * GB/s".
 */
#ifndef TESTS_CLI_ARITHMETIC_H
#define TESTS_CLI_ARITHMETIC_H

/* The text may contain numbers with units of base/units, + - x / ^, brackets, sqrt() and exp().
 * Other text gives NAN.
 */
double arithmetic(const char *text);

#endif
