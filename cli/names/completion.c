/* Writes completion scripts for bash, zsh and fish. */
#include "cli/names/completion.h"

#include "base/length.h"
#include "cli/input/command.h"
#include "cli/input/options.h"

#include <string.h>

/* The kind of `simsearch list` that has the names of an argument; NULL: none. */
static const char *kind_of(const struct option_row *row)
{
    static const char *const kinds[][2] = {
        { "MODEL", "models" }, { "CLUSTER", "clusters" }, { "GPU", "gpus" },
        { "STACK", "stacks" }, { "METHOD", "methods" },   { "TEXT", "texts" },
    };
    for (size_t i = 0; row->argument && i < LENGTH(kinds); i++)
        if (strcmp(kinds[i][0], row->argument) == 0)
            return kinds[i][1];
    return NULL;
}

static bool is_file(const struct option_row *row)
{
    return strncmp(row->argument, "FILE", 4) == 0 || strstr(row->argument, ".json") ||
           strcmp(row->argument, "DIR") == 0 || strcmp(row->argument, "PREFIX") == 0;
}

/* Returns the form of a character within a shell's single quotes; NULL: unchanged. */
typedef const char *quoting(char character);

static const char *quoted_for_zsh(char character)
{
    switch (character) {
    case '\'':
        return "'\\''";
    case '[':
        return "\\[";
    case ']':
        return "\\]";
    case '\\':
        return "\\\\";
    default:
        return NULL;
    }
}

static const char *quoted_for_fish(char character)
{
    return character == '\'' ? "\\'" : character == '\\' ? "\\\\" : NULL;
}

static void write_quoted(const char *text, size_t length, quoting *quoted, FILE *to)
{
    for (size_t i = 0; i < length; i++) {
        const char *other = quoted(text[i]);
        if (other)
            fputs(other, to);
        else
            fputc(text[i], to);
    }
}

/* Writes the first sentence of an option's text. */
static void write_doc(const struct option_row *row, unsigned command, quoting *quoted, FILE *to)
{
    struct text doc = { 0 };
    options_add_doc(row, command, &doc);
    const char *text = text_get(&doc);
    const char *end = strstr(text, ". ");
    write_quoted(text, end ? (size_t)(end - text) : strcspn(text, "\n"), quoted, to);
    text_release(&doc);
}

static void write_names(const struct option_row *row, FILE *to)
{
    for (int i = 0; row->field.names && row->field.names[i]; i++)
        fprintf(to, "%s%s", i > 0 ? " " : "", row->field.names[i]);
}

static void write_commands(FILE *to)
{
    for (int i = 0; i < num_commands; i++)
        fprintf(to, "%s%s", i > 0 ? " " : "", commands[i].name);
}

static void write_kinds(FILE *to, const json_t *kinds)
{
    for (size_t i = 0; i < json_array_size(kinds); i++)
        fprintf(to, "%s%s", i > 0 ? " " : "",
                json_string_value(json_object_get(json_array_get(kinds, i), "name")));
}

/* --- bash ----------------------------------------------------------------------------------- */

static void write_bash_values(FILE *to)
{
    for (int i = 0; i < num_option_rows; i++) {
        const struct option_row *row = &option_rows[i];
        if (!kind_of(row) && !row->field.names)
            continue;
        fprintf(to, "        %s%s%s) words=", row->name, row->alias ? " | " : "",
                row->alias ? row->alias : "");
        if (kind_of(row)) {
            fprintf(to, "$(_simsearch_names \"$program\" %s) ;;\n", kind_of(row));
        } else {
            fprintf(to, "\"");
            write_names(row, to);
            fprintf(to, "\" ;;\n");
        }
    }
}

static void write_bash_options(FILE *to)
{
    for (int i = 0; i < num_commands; i++) {
        fprintf(to, "        %s) words=\"", commands[i].name);
        for (int j = 0; j < num_option_rows; j++)
            if (option_rows[j].commands & commands[i].bit)
                fprintf(to, "%s ", option_rows[j].name);
        fprintf(to, "--help\" ;;\n");
    }
}

void completion_write_bash(FILE *to, const json_t *kinds)
{
    fprintf(to, "# bash completion for simsearch, from `simsearch list completion-bash`.\n\n"
                "_simsearch_names() {\n"
                "    \"$1\" list \"$2\" --json 2>/dev/null | grep -o '\"name\": *\"[^\"]*\"' |\n"
                "        cut -d '\"' -f 4\n"
                "}\n\n"
                "_simsearch() {\n"
                "    local program=$1 word=${COMP_WORDS[COMP_CWORD]}\n"
                "    local before=${COMP_WORDS[COMP_CWORD - 1]} command=search words=\"\"\n"
                "    # `simsearch --gpus ...` means `simsearch search --gpus ...`.\n"
                "    [[ ${COMP_WORDS[1]} == -* || $COMP_CWORD == 1 ]] || command=${COMP_WORDS[1]}\n"
                "    if [[ $word == -* ]]; then\n        case $command in\n");
    write_bash_options(to);
    fprintf(to, "        esac\n    else\n        case $before in\n");
    write_bash_values(to);
    fprintf(to, "        list) words=\"");
    write_kinds(to, kinds);
    fprintf(to, "\" ;;\n        help) words=\"");
    write_commands(to);
    fprintf(to, "\" ;;\n        *) ((COMP_CWORD > 1)) || words=\"help ");
    write_commands(to);
    fprintf(to, "\" ;;\n        esac\n    fi\n"
                "    # Without a match readline completes file names.\n"
                "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
                "}\n"
                "complete -o default -F _simsearch simsearch\n");
}

/* --- zsh ------------------------------------------------------------------------------------ */

static void write_zsh_option(const struct option_row *row, const char *name, unsigned command,
                             FILE *to)
{
    fprintf(to, " \\\n            '%s[", name);
    write_doc(row, command, quoted_for_zsh, to);
    fprintf(to, "]");
    if (row->argument)
        fprintf(to, ":%s:", row->argument);
    if (kind_of(row))
        fprintf(to, " _simsearch_names %s", kind_of(row));
    else if (row->argument && row->field.names) {
        fprintf(to, "(");
        write_names(row, to);
        fprintf(to, ")");
    } else if (row->argument)
        fprintf(to, "%s", is_file(row) ? "_files" : " ");
    fprintf(to, "'");
}

void completion_write_zsh(FILE *to, const json_t *kinds)
{
    fprintf(to, "#compdef simsearch\n"
                "# zsh completion for simsearch, from `simsearch list completion-zsh`.\n\n"
                "_simsearch_names() {\n"
                "    local -a names\n"
                "    names=(${(f)\"$(simsearch list $1 --json 2>/dev/null |\n"
                "        grep -o '\"name\": *\"[^\"]*\"' | cut -d '\"' -f 4)\"})\n"
                "    compadd -a names\n"
                "    _files\n"
                "}\n\n"
                "_simsearch() {\n"
                "    local command=search\n"
                "    [[ $words[2] == -* || $CURRENT -eq 2 ]] || command=$words[2]\n"
                "    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
                "        compadd help ");
    write_commands(to);
    fprintf(to, "\n        return\n    fi\n    case $command in\n    help) compadd ");
    write_commands(to);
    fprintf(to, " ;;\n");
    for (int i = 0; i < num_commands; i++) {
        fprintf(to, "    %s)\n        _arguments", commands[i].name);
        for (int j = 0; j < num_option_rows; j++) {
            const struct option_row *row = &option_rows[j];
            if (!(row->commands & commands[i].bit))
                continue;
            write_zsh_option(row, row->name, commands[i].bit, to);
            if (row->alias)
                write_zsh_option(row, row->alias, commands[i].bit, to);
        }
        fprintf(to, " \\\n            '--help[Shows this]' \\\n            '*:file:");
        if (commands[i].bit == COMMAND_LIST) {
            fprintf(to, "(list ");
            write_kinds(to, kinds);
            fprintf(to, ")");
        } else {
            fprintf(to, "_files");
        }
        fprintf(to, "' ;;\n");
    }
    fprintf(to, "    esac\n}\n\n_simsearch \"$@\"\n");
}

/* --- fish ----------------------------------------------------------------------------------- */

static void write_fish_option(const struct option_row *row, FILE *to)
{
    fprintf(to, "complete -c simsearch -n '__simsearch_is");
    for (int i = 0; i < num_commands; i++)
        if (row->commands & commands[i].bit)
            fprintf(to, " %s", commands[i].name);
    fprintf(to, "' -l %s", row->name + 2);
    if (row->alias && row->alias[1] == '-')
        fprintf(to, " -l %s", row->alias + 2);
    else if (row->alias)
        fprintf(to, " -s %s", row->alias + 1);
    if (kind_of(row))
        fprintf(to, " -r -a '(__simsearch_names %s)'", kind_of(row));
    else if (row->argument && row->field.names) {
        fprintf(to, " -x -a '");
        write_names(row, to);
        fprintf(to, "'");
    } else if (row->argument)
        fprintf(to, "%s", is_file(row) ? " -r" : " -x");
    fprintf(to, " -d '");
    write_doc(row, row->commands, quoted_for_fish, to);
    fprintf(to, "'\n");
}

void completion_write_fish(FILE *to, const json_t *kinds)
{
    fprintf(to, "# fish completion for simsearch, from `simsearch list completion-fish`.\n\n"
                "function __simsearch_names\n"
                "    simsearch list $argv[1] --json 2>/dev/null | "
                "string replace -rf '.*\"name\": *\"([^\"]*)\".*' '$1'\n"
                "end\n\n"
                "function __simsearch_is\n"
                "    set -l words (commandline -opc)\n"
                "    set -l command search\n"
                "    if set -q words[2]; and not string match -q -- '-*' $words[2]\n"
                "        set command $words[2]\n"
                "    end\n"
                "    contains -- $command $argv\n"
                "end\n\n"
                "complete -c simsearch -n __fish_use_subcommand -a help -d 'explain a command'\n");
    for (int i = 0; i < num_commands; i++) {
        const struct command *command = &commands[i];
        fprintf(to, "complete -c simsearch -n __fish_use_subcommand -a %s -d '", command->name);
        write_quoted(command->summary, strlen(command->summary), quoted_for_fish, to);
        fprintf(to, "'\n");
    }
    fprintf(to, "complete -c simsearch -n '__simsearch_is list' -f -a '");
    write_kinds(to, kinds);
    fprintf(to, "'\ncomplete -c simsearch -n '__simsearch_is help' -f -a '");
    write_commands(to);
    fprintf(to, "'\n");
    for (int i = 0; i < num_option_rows; i++)
        write_fish_option(&option_rows[i], to);
}
