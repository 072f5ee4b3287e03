/* interchange/bridge.h - Megatron-Bridge's and NeMo's names for Megatron Core's arguments. */
#ifndef INTERCHANGE_BRIDGE_H
#define INTERCHANGE_BRIDGE_H

#include "interchange/megatron.h"

extern const struct megatron_args bridge_defaults;
extern const struct setting_row bridge_rows[];
extern const int num_bridge_rows;

/* Functions for struct target (interchange/target.h). */
void bridge_arguments(const struct job *job, void *args, struct arena *arena);
bool bridge_job(const void *args, struct job *job, struct arena *arena, struct err *err);
target_parse bridge_parse;
target_write bridge_write;
extern const char *const bridge_ignored[];

#endif
