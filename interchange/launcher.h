/* interchange/launcher.h - how many nodes and GPUs a launch script asks for. */
#ifndef INTERCHANGE_LAUNCHER_H
#define INTERCHANGE_LAUNCHER_H

#include "interchange/shell.h"
#include "interchange/target.h"

/* Sets nodes, gpus_per_node and environment from the words in front of the script (torchrun,
 * deepspeed, srun), else from #SBATCH lines, else from variables with usual names. */
void launcher_read(const struct shell_script *script, struct imported *out);

/* Arguments behind the script, or all of them: "--key value ...", "--key=value". Others, which no
 * flag is in front of, go to `unknown`. */
void launcher_arguments(const struct shell_command *command, struct imported *out);

#endif
