/* tests/cli/arithmetic.h - the value of a formula that was filled in: "2 x (8 - 1) x 676 MB / 50
 * GB/s".
 */
#ifndef TESTS_CLI_ARITHMETIC_H
#define TESTS_CLI_ARITHMETIC_H

/* Numbers, with units of base/units; + - x / ^, brackets, sqrt() and exp(). NAN for anything else.
 */
double arithmetic(const char *text);

#endif
