/* cli/mcp.c - makes the commands available as tools of an agent, by the Model Context Protocol over
 * stdin and stdout.
 *
 * Messages are JSON-RPC 2.0, one per line (modelcontextprotocol.io, specification of 2025-06-18,
 * "Transports", "Tools"). A tool is a command, its arguments are the options of cli/input/options.h
 * and "files". Each call starts this program as a new process with --json, so that calls do not
 * affect one another. */
#include "base/length.h"
#include "base/text.h"
#include "cli/input/command.h"
#include "cli/input/options.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ANSWER_BYTES = 64 << 20, MOST_ARGUMENTS = 256, CALL_LIMIT_MS = 600 * 1000 };
enum rpc_error {
    RPC_PARSE = -32700,
    RPC_REQUEST = -32600,
    RPC_METHOD = -32601,
    RPC_PARAMS = -32602,
};

static const char *const tools[] = { "search", "simulate", "explain", "tune",
                                     "export", "import",   "list" };
static const char *const versions[] = { "2025-06-18", "2025-03-26", "2024-11-05" };

/* --- tools ----------------------------------------------------------------------------------- */

static const struct command *tool_find(const char *name)
{
    for (int i = 0; name && i < LENGTH(tools); i++)
        if (strcmp(tools[i], name) == 0)
            return command_find(name);
    return NULL;
}

static json_t *tool_json(const struct command *command)
{
    json_t *properties = json_object();
    for (int i = 0; i < num_option_rows; i++) {
        const struct option_row *row = &option_rows[i];
        struct text doc = { 0 };
        if (!(row->commands & command->bit) || strcmp(row->name, "--json") == 0)
            continue;
        options_add_doc(row, command->bit, &doc);
        bool is_int = row->field.kind == FIELD_INT;
        const char *type = !row->argument ? "boolean" : is_int ? "integer" : "string";
        json_object_set_new(properties, row->name + 2,
                            json_pack("{s:s, s:s}", "type", type, "description", text_get(&doc)));
        text_release(&doc);
    }
    json_object_set_new(properties, "files",
                        json_pack("{s:s, s:{s:s}, s:s}", "type", "array", "items", "type", "string",
                                  "description",
                                  "Arguments of the command other than its options."));
    struct text about = { 0 };
    text_add(&about, "%s\n%s%s", command->summary, command->examples, command->details);
    json_t *json = json_pack("{s:s, s:s, s:{s:s, s:o, s:b}}", "name", command->name, "description",
                             text_get(&about), "inputSchema", "type", "object", "properties",
                             properties, "additionalProperties", false);
    text_release(&about);
    return json;
}

/* --- a call ---------------------------------------------------------------------------------- */

/* The command line of a call; its texts are released with it. */
struct call {
    char *argv[MOST_ARGUMENTS + 1];
    int argc;
};

static bool add(struct call *call, const char *word)
{
    if (call->argc == MOST_ARGUMENTS)
        return false;
    struct text copy = { 0 };
    text_add(&copy, "%s", word);
    call->argv[call->argc++] = copy.at ? copy.at : strdup("");
    return true;
}

static bool add_option(struct call *call, const char *key, const json_t *value)
{
    struct text name = { 0 };
    text_add(&name, "--%s", key);
    bool ok = json_is_false(value) || json_is_null(value) || add(call, text_get(&name));
    text_release(&name);
    if (!ok || json_is_boolean(value) || json_is_null(value))
        return ok;
    if (json_is_string(value))
        return add(call, json_string_value(value));
    char *number = json_is_number(value) ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    ok = number && add(call, number);
    free(number);
    return ok;
}

/* Builds the arguments: --key value ..., then "--" and the files. */
static bool read_arguments(const struct command *command, const json_t *arguments,
                           struct call *call)
{
    const char *key;
    const json_t *value, *files = json_object_get(arguments, "files");
    size_t i;
    if (!json_is_object(arguments) || (files && !json_is_array(files)))
        return false;
    bool ok = add(call, "simsearch") && add(call, command->name) && add(call, "--json");
    json_object_foreach ((json_t *)arguments, key, value)
        ok = ok && (value == files || add_option(call, key, value));
    ok = ok && (json_array_size(files) == 0 || add(call, "--"));
    json_array_foreach (files, i, value)
        ok = ok && json_is_string(value) && add(call, json_string_value(value));
    return ok;
}

/* Reads both pipes until they are closed; false when no data arrive for too long. */
static bool drain(int from[2], struct text out[2])
{
    struct pollfd polls[2] = { { from[0], POLLIN, 0 }, { from[1], POLLIN, 0 } };
    char bytes[1 << 14];
    for (int open = 2; open > 0;) {
        int ready = poll(polls, 2, CALL_LIMIT_MS);
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return false;
        for (int i = 0; i < 2; i++) {
            ssize_t n = ready > 0 && polls[i].revents ? read(polls[i].fd, bytes, sizeof bytes) : -2;
            if (n > 0 && out[i].length < MOST_ANSWER_BYTES)
                text_add(&out[i], "%.*s", (int)n, bytes);
            if (n == 0 || (n == -1 && errno != EINTR)) {
                polls[i].fd = -1;
                open--;
            }
        }
    }
    return true;
}

/* Runs in the child. Its standard input is /dev/null, so that it cannot read the agent's messages.
 */
_Noreturn static void become(struct call *call, int out, int err)
{
    int in = open("/dev/null", O_RDONLY);
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(err, STDERR_FILENO) >= 0)
        execv("/proc/self/exe", call->argv);
    _exit(EXIT_FAILED);
}

/* Runs a call and returns its exit code. out[0] is its standard output, out[1] its standard
 * error. */
static int run(struct call *call, struct text out[2])
{
    int pipes[2][2], status = 0;
    if (pipe(pipes[0]) != 0)
        return EXIT_FAILED;
    pid_t child = pipe(pipes[1]) == 0 ? fork() : -2;
    if (child == 0)
        become(call, pipes[0][1], pipes[1][1]);
    for (int i = 0; child != -2 && i < 2; i++)
        close(pipes[i][1]);
    if (child > 0) {
        if (!drain((int[2]){ pipes[0][0], pipes[1][0] }, out))
            kill(child, SIGKILL);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
    }
    close(pipes[0][0]);
    close(child == -2 ? pipes[0][1] : pipes[1][0]);
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

/* Returns the command's output as text and, if it is a JSON object, also as structured content. A
 * result without a plan, or at the time limit, counts as an answer, not as an error. */
static json_t *call_json(struct call *call)
{
    struct text out[2] = { { 0 }, { 0 } };
    int code = run(call, out);
    bool is_answer = code == EXIT_DONE || code == EXIT_NO_PLAN || code == EXIT_TIME_LIMIT;
    json_t *content = json_array();
    for (int i = 0; i < 2; i++)
        if (out[i].length > 0)
            json_array_append_new(
                content, json_pack("{s:s, s:s}", "type", "text", "text", text_get(&out[i])));
    json_t *result = json_pack("{s:o, s:b, s:{s:i}}", "content", content, "isError", !is_answer,
                               "_meta", "exit_code", code);
    json_t *document = json_loads(text_get(&out[0]), 0, NULL);
    if (json_is_object(document))
        json_object_set(result, "structuredContent", document);
    json_decref(document);
    text_release(&out[0]);
    text_release(&out[1]);
    return result;
}

/* --- messages -------------------------------------------------------------------------------- */

static json_t *error_json(enum rpc_error code, const char *message)
{
    return json_pack("{s:{s:i, s:s}}", "error", "code", (int)code, "message", message);
}

static json_t *initialize(const json_t *params)
{
    const char *asked = json_string_value(json_object_get(params, "protocolVersion"));
    const char *spoken = versions[0];
    for (int i = 0; asked && i < LENGTH(versions); i++)
        if (strcmp(asked, versions[i]) == 0)
            spoken = versions[i];
    return json_pack("{s:{s:s, s:{s:{}}, s:{s:s, s:s}}}", "result", "protocolVersion", spoken,
                     "capabilities", "tools", "serverInfo", "name", "simsearch", "version",
                     SIMSEARCH_VERSION);
}

static json_t *list_tools(void)
{
    json_t *list = json_array();
    for (int i = 0; i < LENGTH(tools); i++)
        json_array_append_new(list, tool_json(command_find(tools[i])));
    return json_pack("{s:{s:o}}", "result", "tools", list);
}

static json_t *call_tool(const json_t *params)
{
    const struct command *command = tool_find(json_string_value(json_object_get(params, "name")));
    json_t *arguments = json_object_get(params, "arguments"), *none = json_object();
    struct call call = { { NULL }, 0 };
    json_t *answer = NULL;
    if (!command)
        answer = error_json(RPC_PARAMS, "unknown tool; tools/list names them");
    else if (!read_arguments(command, arguments ? arguments : none, &call))
        answer =
            error_json(RPC_PARAMS, "expected arguments as in the tool's inputSchema: an object "
                                   "of strings, numbers and booleans, and files as strings");
    else
        answer = json_pack("{s:o}", "result", call_json(&call));
    for (int i = 0; i < call.argc; i++)
        free(call.argv[i]);
    json_decref(none);
    return answer;
}

/* The answer to a message; NULL for a notification, which has none. */
static json_t *answer_to(const json_t *message)
{
    const char *method = json_string_value(json_object_get(message, "method"));
    const char *version = json_string_value(json_object_get(message, "jsonrpc"));
    const json_t *params = json_object_get(message, "params");
    if (!method || !version || strcmp(version, "2.0") != 0)
        return error_json(RPC_REQUEST, "expected a request of JSON-RPC 2.0");
    if (!json_object_get(message, "id"))
        return NULL;
    if (strcmp(method, "initialize") == 0)
        return initialize(params);
    if (strcmp(method, "ping") == 0)
        return json_pack("{s:{}}", "result");
    if (strcmp(method, "tools/list") == 0)
        return list_tools();
    if (strcmp(method, "tools/call") == 0)
        return call_tool(params);
    return error_json(RPC_METHOD, "expected initialize, ping, tools/list or tools/call");
}

/* Handles one line. False when the answer cannot be written. */
static bool serve(const char *line, size_t length)
{
    json_t *message = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    json_t *id = json_object_get(message, "id");
    json_t *answer = message ? answer_to(message) : error_json(RPC_PARSE, "expected JSON");
    bool ok = true, has_id = json_is_string(id) || json_is_number(id);
    if (answer) {
        json_object_set_new(answer, "jsonrpc", json_string("2.0"));
        json_object_set(answer, "id", has_id ? id : json_null());
        ok = json_dumpf(answer, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF &&
             fflush(stdout) == 0;
    }
    json_decref(answer);
    json_decref(message);
    return ok;
}

int cmd_mcp(int argc, char **argv, struct err *err)
{
    struct options options;
    char *line = NULL;
    size_t room = 0;
    if (!options_parse(COMMAND_MCP, 0, argc, argv, &options, err))
        return exit_code_of(err);
    for (ssize_t n; (n = getline(&line, &room, stdin)) >= 0;)
        if (strspn(line, " \t\r\n") != (size_t)n && !serve(line, (size_t)n))
            break;
    free(line);
    return EXIT_DONE;
}
