#include "cli/print/scale.h"

#include <stdio.h>

struct time_scale time_scale_of(double step_s)
{
    double per_s = step_s >= 0.9995 ? 1 : step_s >= 0.9995e-3 ? 1e3 : 1e6;
    double shown = step_s * per_s;
    return (struct time_scale){
        .per_s = per_s,
        .unit = per_s > 1e3 ? "us"
                : per_s > 1 ? "ms"
                            : "s",
        .decimals = shown < 9.995   ? 2
                    : shown < 999.5 ? 1
                                    : 0,
    };
}

struct risk_text risk_words(double probability)
{
    struct risk_text words;
    double percent = 100 * probability;
    if (percent < 0.1 || percent > 99.9)
        snprintf(words.text, sizeof words.text, "%s %%", percent < 0.1 ? "< 0.1" : "> 99.9");
    else
        snprintf(words.text, sizeof words.text, "%.*f %%", percent < 1 || percent > 99, percent);
    return words;
}
