/* interchange/targets.h - what the targets' files give to the table in targets.c; nothing else
 * includes it. */
#ifndef INTERCHANGE_TARGETS_H
#define INTERCHANGE_TARGETS_H

#include "interchange/target.h"

typedef bool target_parse(const char *path, const char *text, struct imported *out,
                          struct arena *arena, struct err *err);

target_parse megatron_parse;
extern const char *const megatron_ignored[];

#endif
