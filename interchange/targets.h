/* interchange/targets.h - the functions of each target for the table in targets.c, which alone
 * includes it beside the targets. */
#ifndef INTERCHANGE_TARGETS_H
#define INTERCHANGE_TARGETS_H

#include "interchange/target.h"

typedef bool target_parse(const char *path, const char *text, struct imported *out,
                          struct arena *arena, struct err *err);

typedef void target_write(const struct job *job, struct exported *out, struct arena *arena);

target_parse megatron_parse, bridge_parse, torchtitan_parse, deepspeed_parse;
target_write megatron_write, bridge_write, torchtitan_write, deepspeed_write;
extern const char *const megatron_ignored[],
    *const bridge_ignored[], *const torchtitan_ignored[], *const deepspeed_ignored[];

#endif
