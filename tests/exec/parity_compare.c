#include "tests/exec/parity.h"

#include "tests/testing.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static double distance(const struct parity_weight *a, const struct parity_weight *b)
{
    double difference = 0, norm = 1e-12;
    for (size_t i = 0; i < a->elements && i < b->elements; i++) {
        if (a->is_held[i] && b->is_held[i])
            difference += pow((double)a->values[i] - (double)b->values[i], 2);
        norm += pow((double)a->values[i], 2);
    }
    return sqrt(difference / norm);
}

double parity_distance(const struct parity_result *a, const struct parity_result *b)
{
    double most = 0;
    for (int i = 0; i < a->num_weights; i++)
        for (int j = 0; j < b->num_weights; j++)
            if (strcmp(a->weights[i].name, b->weights[j].name) == 0)
                most = fmax(most, distance(&a->weights[i], &b->weights[j]));
    return most;
}

/* Whether two values agree within the relative error `share`; false for NaN. */
static bool is_within(double share, double value, double alone)
{
    return fabs(value / alone - 1) < share;
}

__attribute__((format(printf, 1, 2))) static struct parity_verdict differ(const char *format, ...)
{
    struct parity_verdict verdict = { .agrees = false };
    va_list args;
    va_start(args, format);
    vsnprintf(verdict.difference, sizeof verdict.difference, format, args);
    va_end(args);
    return verdict;
}

struct parity_verdict parity_compare(const struct parity_run *run, const struct parity_result *one,
                                     const struct parity_result *many)
{
    for (int step = 0; step < run->steps; step++) {
        if (!is_within(1e-5, many->loss[step], one->loss[step]))
            return differ("step %d: the loss is %.9g, but %.9g on one rank", step + 1,
                          many->loss[step], one->loss[step]);
        if (!is_within(1e-4, many->gradient_norm[step], one->gradient_norm[step]))
            return differ("step %d: the norm is %.9g, but %.9g on one rank", step + 1,
                          many->gradient_norm[step], one->gradient_norm[step]);
    }
    double apart = parity_distance(one, many);
    if (!(apart < (run->optimizer == OPTIMIZER_ADAM ? 1e-4 : 1e-5)))
        return differ("weights differ by %.3g", apart);
    return (struct parity_verdict){ .agrees = true };
}

void parity_check_losses(const struct parity_result *alone, const struct parity_result *many,
                         int steps, double tolerance, const char *layout)
{
    for (int step = 0; step < steps; step++)
        ck_assert_msg(is_within(tolerance, many->loss[step], alone->loss[step]),
                      "%s, step %d: the loss is %.9g, but %.9g on one rank", layout, step + 1,
                      many->loss[step], alone->loss[step]);
}

static bool is_equal(const struct parity_weight *a, const struct parity_weight *b)
{
    return strcmp(a->name, b->name) != 0 ||
           (a->elements == b->elements &&
            memcmp(a->values, b->values, sizeof *a->values * a->elements) == 0);
}

bool parity_is_equal(const struct parity_result *a, const struct parity_result *b, int steps)
{
    size_t bytes = sizeof *a->loss * (size_t)steps;
    bool equal = a->num_weights == b->num_weights && memcmp(a->loss, b->loss, bytes) == 0 &&
                 memcmp(a->gradient_norm, b->gradient_norm, bytes) == 0;
    for (int i = 0; i < a->num_weights && equal; i++)
        for (int j = 0; j < b->num_weights && equal; j++)
            equal = is_equal(&a->weights[i], &b->weights[j]);
    return equal;
}
