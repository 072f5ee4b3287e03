#include "kernels/host/embedding.h"

#include "kernels/host/residual.h"

#include <stdbool.h>
#include <string.h>

static bool holds(const struct embedding *embedding, int64_t id)
{
    return id >= embedding->first && id < embedding->first + embedding->rows;
}

void embedding_gather(const struct embedding *embedding, const int64_t *ids, const float *table,
                      float *y)
{
    long width = embedding->width;
    for (long token = 0; token < embedding->tokens; token++, y += width)
        if (holds(embedding, ids[token]))
            memcpy(y, table + (ids[token] - embedding->first) * width, sizeof *y * (size_t)width);
        else
            memset(y, 0, sizeof *y * (size_t)width);
}

void embedding_accumulate(const struct embedding *embedding, const int64_t *ids, const float *dy,
                          float *dtable)
{
    long width = embedding->width;
    for (long token = 0; token < embedding->tokens; token++, dy += width)
        if (holds(embedding, ids[token]))
            residual_add(width, dy, dtable + (ids[token] - embedding->first) * width);
}

void positions_add(const struct positions *positions, const float *table, float *y)
{
    long width = positions->width;
    for (long token = 0; token < positions->tokens; token++)
        residual_add(width, table + token % positions->seq * width, y + token * width);
}

void positions_accumulate(const struct positions *positions, const float *dy, float *dtable)
{
    long width = positions->width;
    for (long token = 0; token < positions->tokens; token++)
        residual_add(width, dy + token * width, dtable + token % positions->seq * width);
}
