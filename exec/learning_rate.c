#include "exec/learning_rate.h"

#include <math.h>

double rate_at(const struct rate_course *course, double peak, long step)
{
    const double pi = 3.14159265358979323846;
    if (step < course->warmup)
        return peak * (double)step / (double)course->warmup;
    if (course->decay == 0 || step <= course->warmup)
        return peak;
    if (step >= course->decay)
        return course->least;
    double done = (double)(step - course->warmup) / (double)(course->decay - course->warmup);
    return course->least + (peak - course->least) * (1 + cos(pi * done)) / 2;
}
