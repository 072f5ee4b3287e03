/* Partitions in common use, and simple ones to compare them with. */
#include "base/length.h"
#include "search/partition/layer.h"

#include <string.h>

// clang-format off
const struct known_partition known_partitions[] = {
    { "megatron-sp", "first product by columns, second by rows; norms and residuals by tokens",
      "Korthikanti et al. 2022, arXiv:2205.05198",
      SHARDING_SEQUENCE, SHARDING_COLUMN, SHARDING_ROW, SHARDING_HIDDEN, SHARDING_HIDDEN },
    { "megatron", "first product by columns, second by rows; norms and residuals on every rank",
      "Shoeybi et al. 2019, arXiv:1909.08053",
      SHARDING_REPLICATED, SHARDING_COLUMN, SHARDING_ROW, SHARDING_HIDDEN, SHARDING_HIDDEN },
    { "all-column", "every linear layer by columns", "",
      SHARDING_REPLICATED, SHARDING_COLUMN, SHARDING_COLUMN, SHARDING_HIDDEN, SHARDING_HIDDEN },
    { "all-row", "every linear layer by rows", "",
      SHARDING_REPLICATED, SHARDING_ROW, SHARDING_ROW, SHARDING_HIDDEN, SHARDING_HIDDEN },
    { "ulysses", "all operators by tokens, attention by heads; every rank has all weights",
      "Jacobs et al. 2023, arXiv:2309.14509",
      SHARDING_SEQUENCE, SHARDING_SEQUENCE, SHARDING_SEQUENCE, SHARDING_HIDDEN, SHARDING_SEQUENCE },
    { "replicated", "every rank computes everything", "",
      SHARDING_REPLICATED, SHARDING_REPLICATED, SHARDING_REPLICATED, SHARDING_REPLICATED,
      SHARDING_REPLICATED },
};
const int num_known_partitions = LENGTH(known_partitions);
// clang-format on

static enum sharding sharding_of(const struct known_partition *known, enum operator_role role)
{
    switch (role) {
    case OPERATOR_FIRST:
        return known->first;
    case OPERATOR_SECOND:
        return known->second;
    case OPERATOR_CORE:
        return known->core;
    case OPERATOR_ACTIVATION:
        return known->activation;
    case OPERATOR_STREAM:
        break;
    }
    return known->stream;
}

struct partition known_partition_of(const struct known_partition *known,
                                    const struct partition_problem *problem)
{
    struct partition partition = { 0 };
    for (int i = 0; i < problem->num_operators; i++)
        partition.of[i] = (unsigned char)sharding_of(known, problem->operators[i].role);
    partition.total = partition_score(problem, partition.of);
    return partition;
}

const struct known_partition *known_partition_find(const struct partition_problem *problem,
                                                   const struct partition *partition)
{
    for (int i = 0; i < num_known_partitions; i++) {
        struct partition known = known_partition_of(&known_partitions[i], problem);
        if (memcmp(known.of, partition->of, sizeof known.of) == 0)
            return &known_partitions[i];
    }
    return NULL;
}
