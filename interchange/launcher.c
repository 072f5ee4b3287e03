/* Finds the numbers of nodes and GPUs in a launch script. */
#include "interchange/launcher.h"

#include "base/length.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OF_EITHER = 1 << 20 };

static int whole(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    return *end || end == text || value < 1 || value > MOST_OF_EITHER ? 0 : (int)value;
}

/* Compares an option's name. To torchrun, "--nproc_per_node" and "--nproc-per-node" are the
 * same. */
static bool is_option(const char *word, const char *option, const char **value)
{
    size_t i = 0;
    for (; option[i]; i++)
        if (word[i] != option[i] && !(option[i] == '-' && word[i] == '_'))
            return false;
    if (word[i] && word[i] != '=')
        return false;
    *value = word[i] == '=' ? word + i + 1 : NULL;
    return true;
}

static int option_of(const struct shell_command *command, const char *const *options)
{
    int end = command->script >= 0 ? command->script : 0;
    for (int i = 0; i < end; i++)
        for (const char *const *option = options; *option; option++) {
            const char *value;
            if (!is_option(command->words[i], *option, &value))
                continue;
            if (!value && i + 1 < end)
                value = command->words[i + 1];
            if (value && whole(value) > 0)
                return whole(value);
        }
    return 0;
}

static int variable_of(const struct settings *variables, const char *const *names)
{
    for (const char *const *name = names; *name; name++) {
        const struct setting *found = settings_find(variables, *name);
        int value = found && found->num_values == 1 ? whole(found->values[0]) : 0;
        if (value > 0)
            return value;
    }
    return 0;
}

static int first_of(int a, int b, int c)
{
    return a > 0 ? a : b > 0 ? b : c;
}

void launcher_read(const struct shell_script *script, struct imported *out)
{
    static const char *const node_options[] = { "--nnodes", "--num-nodes", "--nodes", "-N", NULL };
    static const char *const gpu_options[] = { "--nproc-per-node", "--num-gpus", "--gpus-per-node",
                                               NULL };
    static const char *const task_options[] = { "--ntasks-per-node", NULL };
    static const char *const node_names[] = { "NNODES", "NUM_NODES",    "N_NODES",
                                              "NODES",  "SLURM_NNODES", "SLURM_JOB_NUM_NODES",
                                              NULL };
    static const char *const gpu_names[] = {
        "GPUS_PER_NODE", "NPROC_PER_NODE", "N_GPUS_PER_NODE", "NGPUS", "NGPU", "NUM_GPUS", NULL
    };
    const struct settings *variables = &script->variables;
    out->nodes = first_of(option_of(&script->command, node_options), script->nodes,
                          variable_of(variables, node_names));
    out->gpus_per_node = first_of(option_of(&script->command, gpu_options), script->gpus_per_node,
                                  variable_of(variables, gpu_names));
    if (out->gpus_per_node == 0)
        out->gpus_per_node = option_of(&script->command, task_options);
    for (int i = 0; i < variables->count; i++)
        if (variables->at[i].num_values == 1)
            settings_copy(&out->environment, &variables->at[i]);
    static const char *const world_names[] = { "WORLD_SIZE", "WORLD", NULL };
    int world = variable_of(variables, world_names);
    if (out->nodes > 0 && out->gpus_per_node > 0)
        out->job.num_gpus =
            out->nodes <= MOST_OF_EITHER / out->gpus_per_node ? out->nodes * out->gpus_per_node : 0;
    else if (out->gpus_per_node > 0 && world == 0)
        out->job.num_gpus = out->gpus_per_node; /* one node is assumed if none is stated */
    else if (world > 0)
        out->job.num_gpus = world;
}

void launcher_arguments(const struct shell_command *command, struct imported *out)
{
    struct setting *last = NULL;
    for (int i = command->script + 1; i < command->count; i++) {
        const char *word = command->words[i];
        int line = command->lines[i];
        if (strncmp(word, "--", 2) != 0 || !word[2]) {
            if (last)
                setting_add_value(&out->given, last, word);
            else
                settings_add(&out->unknown, word, line);
            continue;
        }
        struct text key = { 0 };
        const char *equals = strchr(word, '=');
        text_add(&key, "%.*s", equals ? (int)(equals - word) : (int)strlen(word), word);
        last = settings_add(&out->given, text_get(&key), line);
        if (equals)
            setting_add_value(&out->given, last, equals + 1);
        text_release(&key);
    }
}
