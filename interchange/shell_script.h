/* interchange/shell_script.h - the training command and the variables of a shell script. */
#ifndef INTERCHANGE_SHELL_SCRIPT_H
#define INTERCHANGE_SHELL_SCRIPT_H

#include "interchange/settings.h"

struct shell_command {
    const char **words; /* launcher, script and arguments; in the arena */
    int *lines;         /* line of each word */
    int count;
    int script; /* index of the word that ends in .py; -1: none, so all words are arguments */
};

struct shell_script {
    struct shell_command command;
    struct settings variables; /* all assignments in order, exported or not */
    int nodes, gpus_per_node;  /* from #SBATCH lines; 0: not stated */
};

#endif
