/* interchange/launcher.h - the numbers of nodes and GPUs that a launch script requests. */
#ifndef INTERCHANGE_LAUNCHER_H
#define INTERCHANGE_LAUNCHER_H

#include "interchange/shell.h"
#include "interchange/target.h"

/* Sets nodes, gpus_per_node and environment from the words before the script's name (torchrun,
 * deepspeed, srun), else from #SBATCH lines, else from variables with usual names. */
void launcher_read(const struct shell_script *script, struct imported *out);

/* Reads the arguments after the script's name (all arguments if there is none): "--key value ...",
 * "--key=value". Words that follow no flag go to `unknown`. */
void launcher_arguments(const struct shell_command *command, struct imported *out);

#endif
