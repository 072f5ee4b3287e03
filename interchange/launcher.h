/* interchange/launcher.h - how many nodes and GPUs a launch script asks for. */
#ifndef INTERCHANGE_LAUNCHER_H
#define INTERCHANGE_LAUNCHER_H

#include "interchange/shell.h"
#include "interchange/target.h"

/* Sets nodes, gpus_per_node and environment from the words in front of the script (torchrun,
 * deepspeed, srun), else from #SBATCH lines, else from variables with usual names. */
void launcher_read(const struct shell_script *script, struct imported *out);

/* Reads the arguments behind the script (without a script, all): "--key value ...", "--key=value".
 * Words that follow no flag go to `unknown`. */
void launcher_arguments(const struct shell_command *command, struct imported *out);

#endif
