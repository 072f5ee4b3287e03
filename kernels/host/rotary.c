/* Rotary positions on the CPU. */
#include "kernels/host/rotary.h"

#include "kernels/host/vector.h"

#include <math.h>

void rotary_table(long seq, long head_dim, double base, float *rope_cos_sin)
{
    long half = head_dim / 2;
    for (long position = 0; position < seq; position++)
        for (long i = 0; i < half; i++) {
            double frequency = pow(base, -2 * (double)i / (double)head_dim);
            double angle = (double)position * frequency;
            rope_cos_sin[position * head_dim + i] = (float)cos(angle);
            rope_cos_sin[position * head_dim + half + i] = (float)sin(angle);
        }
}

EACH_MACHINE
static void turn_head(long half, const float *restrict rope_cos_sin, float *restrict low,
                      float *restrict high)
{
    for (long i = 0; i < half; i++) {
        float cosine = rope_cos_sin[i], sine = rope_cos_sin[half + i];
        float x = low[i], y = high[i];
        low[i] = x * cosine - y * sine;
        high[i] = y * cosine + x * sine;
    }
}

EACH_MACHINE
static void turn_head_back(long half, const float *restrict rope_cos_sin, float *restrict low,
                           float *restrict high)
{
    for (long i = 0; i < half; i++) {
        float cosine = rope_cos_sin[i], sine = rope_cos_sin[half + i];
        float x = low[i], y = high[i];
        low[i] = x * cosine + y * sine;
        high[i] = y * cosine - x * sine;
    }
}

/* Rotates the queries and the key of each key-value group; the value stays as it is. */
static void turn_all(const struct attention *attention, const float *rope_cos_sin, float *qkv,
                     void (*turn)(long half, const float *rope_cos_sin, float *low, float *high))
{
    long head_dim = attention->head_dim, half = head_dim / 2;
    long turned = attention->heads / attention->kv_heads + 1;
    for (long token = 0; token < attention_tokens(attention); token++) {
        const float *at = rope_cos_sin + token % attention->seq * head_dim;
        for (long group = 0; group < attention->kv_heads; group++, qkv += head_dim)
            for (long head = 0; head < turned; head++, qkv += head_dim)
                turn(half, at, qkv, qkv + half);
    }
}

void rotary_forward(const struct attention *attention, const float *rope_cos_sin, float *qkv)
{
    turn_all(attention, rope_cos_sin, qkv, turn_head);
}

void rotary_backward(const struct attention *attention, const float *rope_cos_sin, float *dqkv)
{
    turn_all(attention, rope_cos_sin, dqkv, turn_head_back);
}
