#include "kernels/host/attention_part.h"

#include <math.h>

long attention_tokens(const struct attention *attention)
{
    return attention->sequences * attention->seq;
}

long attention_qkv_width(const struct attention *attention)
{
    return (attention->heads + 2 * attention->kv_heads) * attention->head_dim;
}

long attention_context_width(const struct attention *attention)
{
    return attention->heads * attention->head_dim;
}

long attention_score_count(const struct attention *attention)
{
    return attention->sequences * attention->heads * attention->seq * attention->seq;
}

struct head head_at(const struct attention *attention, long sequence, long head)
{
    long queries = attention->heads / attention->kv_heads;
    long group = head / queries, in_group = head % queries;
    long head_dim = attention->head_dim, seq = attention->seq;
    long first_token = sequence * seq;
    long heads_before =
        first_token * (attention->heads + 2 * attention->kv_heads) + group * (queries + 2);
    return (struct head){
        .sequence = sequence,
        .head = head,
        .query = (heads_before + in_group) * head_dim,
        .key = (heads_before + queries) * head_dim,
        .value = (heads_before + queries + 1) * head_dim,
        .context = (first_token * attention->heads + head) * head_dim,
        .matrix = (sequence * attention->heads + head) * seq * seq,
        .row = (sequence * attention->heads + head) * seq,
        .is_first_of_group = in_group == 0,
    };
}

float attention_scale(const struct attention *attention)
{
    return (float)(1 / sqrt((double)attention->head_dim));
}

void attention_keeps(const struct attention *attention, const struct head *head, long query,
                     long key, long n, uint8_t *keeps)
{
    const struct attention_dropout *dropout = &attention->dropout;
    long sequence = (long)draw_first_sequence(&dropout->draw) + dropout->first_sequence;
    long matrix =
        (sequence + head->sequence) * dropout->model_heads + dropout->first_head + head->head;
    long first = (matrix * attention->seq + query) * attention->seq + key;
    draw_keeps(&dropout->draw, dropout->dropout, (uint64_t)first, n, keeps);
}

float attention_kept_scale(const struct attention *attention)
{
    return (float)(1 / (1 - attention->dropout.dropout));
}
