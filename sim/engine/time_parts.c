#include "sim/engine/time_parts.h"

#include "base/length.h"

// clang-format off
#define PART(member, text) { #member, text, offsetof(struct time_parts, member) }
// clang-format on
const struct time_part time_part_table[] = {
    PART(compute_s, "compute"),        PART(recompute_s, "recompute"),
    PART(tensor_comm_s, "TP exposed"), PART(context_comm_s, "CP exposed"),
    PART(expert_comm_s, "EP exposed"), PART(pipeline_comm_s, "PP p2p"),
    PART(bubble_s, "PP bubble"),       PART(data_comm_s, "DP exposed"),
    PART(optimizer_s, "optimizer"),    PART(other_s, "host, stragglers"),
};
const int num_time_parts = LENGTH(time_part_table);

double time_part_s(const struct time_parts *parts, int i)
{
    return *(const double *)(const void *)((const char *)parts + time_part_table[i].offset);
}

void time_parts_add(struct time_parts *sum, const struct time_parts *parts, double times)
{
    for (int i = 0; i < num_time_parts; i++) {
        size_t at = time_part_table[i].offset;
        *(double *)(void *)((char *)sum + at) += times * time_part_s(parts, i);
    }
}
