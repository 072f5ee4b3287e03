#include "models/learning_curve.h"

#include <math.h>

double learning_curve_loss(const struct model *model, double tokens)
{
    double guessed = log(model->vocab);
    if (tokens <= 0)
        return guessed;
    double of_size = 406.4 / pow(model_parameters(model), 0.34);
    double of_tokens = 410.7 / pow(tokens, 0.28);
    return fmin(guessed, 1.69 + of_size + of_tokens);
}
