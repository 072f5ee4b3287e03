#include "tests/sim/machine.h"

#include "tests/check_ok.h"

struct system machine;

void machine_load(const char *cluster, int num_gpus)
{
    struct err err = { 0 };
    check_ok(system_load(cluster, "megatron-core", num_gpus, &machine, &err), &err);
}

void machine_release(void)
{
    system_release(&machine);
    machine = (struct system){ 0 };
}

double inside_gb_per_s(const struct comm_group *group)
{
    return group->num_channels * group->intra_bytes_per_s / 1e9;
}

double between_gb_per_s(const struct comm_group *group)
{
    return group->num_channels * group->inter_bytes_per_s / 1e9;
}
