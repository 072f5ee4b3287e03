#include "sim/exchange/averaging.h"

#include "models/learning_curve.h"

enum { PARTS = 64 }; /* equal parts of a run; twice as many change the result by less than 1 % */

double averaging_share(const struct exchange *exchange, const struct model *model)
{
    if (!exchange_method_of(exchange)->adapts || model->tokens <= 0)
        return 1.0 / exchange_cycle(exchange);
    double losses[PARTS];
    for (int i = 0; i < PARTS; i++)
        losses[i] = learning_curve_loss(model, model->tokens * (i + 0.5) / PARTS);
    return exchange_averaging_share(exchange, learning_curve_loss(model, 0), losses, PARTS);
}
