#include "tests/sim/engine/time_parts.h"

#include "tests/testing.h"

#include <math.h>

void check_time_parts(const struct prediction *p, const char *what)
{
    double sum_s = 0;
    for (int i = 0; i < num_time_parts; i++) {
        double part_s = time_part_s(&p->time, i);
        ck_assert_msg(part_s >= 0, "%s: the part %s is %g s of a step of %g s", what,
                      time_part_table[i].name, part_s, p->step_s);
        sum_s += part_s;
    }
    ck_assert_msg(fabs(sum_s - p->step_s) <= 1e-9 * p->step_s,
                  "%s: the parts sum to %.17g s, but the step takes %.17g s", what, sum_s,
                  p->step_s);
}
