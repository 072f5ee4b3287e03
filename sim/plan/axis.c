#include "sim/plan/axis.h"

/* Divisors above the square root of n are found as quotients n / k. */
int next_divisor(int n, int d)
{
    for (d++; d <= n / d; d++)
        if (n % d == 0)
            return d;
    for (int quotient = n / d; quotient > 0; quotient--)
        if (n % quotient == 0)
            return n / quotient;
    return 0;
}

unsigned replicated_axes(void)
{
    unsigned set = 0;
    for (int i = 0; i < num_axes; i++)
        set |= (unsigned)axes[i]->is_replicated << i;
    return set;
}

unsigned model_axes(void)
{
    return ~replicated_axes() & ((1u << num_axes) - 1);
}
