#include "search/batch.h"

#include <math.h>

double batch_dividing(double sequences, double unit)
{
    for (int power = 40; power >= 0; power--) {
        double step = ldexp(unit, power);
        double rounded = step * round(sequences / step);
        if (rounded > 0 && fabs(rounded - sequences) <= BATCH_SHARE * sequences)
            return rounded;
    }
    return 0;
}
