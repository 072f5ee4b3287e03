#include "tests/kernels/ptx/ptx_module.h"

#include "base/length.h"
#include "tests/kernels/ptx/ptx_parser.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- statements --------------------------------------------------------------------------- */

/* Whether the instruction is a conversion, which may read the low half of a wider register. */
static bool reads_part_of_wide(const struct ptx_parser *p, const char *opcode, const char *operands,
                               const char *text)
{
    struct ptx_operand from;
    const char *comma = strchr(text, ',');
    return strncmp(opcode, "cvt.", 4) == 0 && comma && ptx_find_register(p, comma + 1, &from) &&
           from.bits == 64 && operands[strlen(operands) - 1] == 'w';
}

static bool take_instruction(struct ptx_parser *p, const char *first)
{
    struct ptx_kernel *k = p->kernel;
    char word[PTX_MOST_NAME], opcode[PTX_MOST_NAME + 8], text[PTX_MOST_STATEMENT];
    struct ptx_insn *insn = &k->insns[k->num_insns];
    struct ptx_operand guard = { 0 };
    snprintf(word, sizeof word, "%s", first);
    insn->guard = -1;
    insn->line = p->line;
    if (!*word && ptx_take(p, "@")) {
        insn->guard_is_negated = ptx_take(p, "!");
        ptx_take_word(p, word);
        if (!ptx_find_register(p, word, &guard) || guard.bits != 1)
            return ptx_fail(p, "no predicate:", word);
        insn->guard = guard.slot;
        ptx_take_word(p, word);
    }
    ptx_skip_space(p);
    bool unpacks = *p->at == '{';
    if (!ptx_take_until(p, ';', text))
        return false;
    bool packs = strncmp(word, "mov.", 4) == 0 && !unpacks && strchr(text, '{');
    snprintf(opcode, sizeof opcode, "%s%s",
             packs                                      ? "pack "
             : unpacks && strncmp(word, "mov.", 4) == 0 ? "unpack "
                                                        : "",
             word);
    if (!ptx_find_opcode(opcode, &insn->op))
        return ptx_fail(p, "unknown opcode", opcode);
    if (reads_part_of_wide(p, opcode, insn->op.operands, text)) {
        snprintf(opcode, sizeof opcode, "%s of 64", word);
        if (!ptx_find_opcode(opcode, &insn->op))
            return ptx_fail(p, "unknown opcode", opcode);
    }
    insn->op.name = arena_text(p->arena, word);
    if (packs)
        ptx_remove_braces(text);
    if (!ptx_read_operands(p, insn, text))
        return false;
    k->num_insns++;
    return true;
}

/* Finds the positions of labels first, as branches may go forward. Instructions end in ';'. */
static bool find_labels(struct ptx_parser *p)
{
    struct ptx_parser scan = *p;
    int depth = 1, count = 0;
    char word[PTX_MOST_NAME], text[PTX_MOST_STATEMENT];
    p->num_labels = 0;
    while (depth > 0) {
        ptx_skip_space(&scan);
        if (!*scan.at)
            return ptx_fail(p, "missing end of", p->kernel->name);
        if (ptx_take(&scan, "{") || ptx_take(&scan, "}")) {
            depth += scan.at[-1] == '{' ? 1 : -1;
            continue;
        }
        ptx_take_word(&scan, word);
        if (word[0] && ptx_take(&scan, ":")) {
            if (p->num_labels == PTX_MOST_LABELS)
                return ptx_fail(p, "too many labels at", word);
            p->labels[p->num_labels++] = (struct ptx_label){ arena_text(p->arena, word), count };
            continue;
        }
        if (!ptx_take_until(&scan, ';', text))
            return ptx_fail(p, "missing end of", text);
        count += word[0] != '.';
    }
    p->most_insns = count + 1;
    return true;
}

static bool take_body(struct ptx_parser *p)
{
    char word[PTX_MOST_NAME], hint[PTX_MOST_STATEMENT];
    int marks[8], depth = 0;
    if (!find_labels(p))
        return false;
    p->kernel->insns = ARENA_ARRAY(p->arena, struct ptx_insn, (size_t)p->most_insns);
    p->kernel->is_executed = ARENA_ARRAY(p->arena, uint8_t, (size_t)p->most_insns);
    for (;;) {
        ptx_skip_space(p);
        if (ptx_take(p, "}")) {
            if (depth == 0)
                return true;
            p->num_declared = marks[--depth];
            continue;
        }
        if (ptx_take(p, "{")) {
            if (depth == LENGTH(marks))
                return ptx_fail(p, "too many scopes in", p->kernel->name);
            marks[depth++] = p->num_declared;
            continue;
        }
        ptx_take_word(p, word);
        if (word[0] && ptx_take(p, ":"))
            continue;
        bool ok = strcmp(word, ".reg") == 0      ? ptx_take_registers(p)
                  : strcmp(word, ".pragma") == 0 ? ptx_take_until(p, ';', hint)
                  : word[0] == '.'               ? ptx_fail(p, "unknown directive", word)
                                                 : take_instruction(p, word);
        if (!ok)
            return false;
    }
}

/* Reads .param .align 8 .b8 NAME[48], or .param .u64 NAME. */
static bool take_param(struct ptx_parser *p)
{
    struct ptx_kernel *k = p->kernel;
    struct ptx_param *param = &k->params[k->num_params];
    char word[PTX_MOST_NAME], number[PTX_MOST_STATEMENT];
    size_t align = 0, count = 1;
    if (k->num_params == PTX_MOST_PARAMS)
        return ptx_fail(p, "too many parameters of", k->name);
    ptx_take_word(p, word);
    if (strcmp(word, ".align") == 0) {
        ptx_take_word(p, word);
        align = (size_t)atoi(word);
        ptx_take_word(p, word);
    }
    size_t bytes = (size_t)ptx_bits_of_type(word) / 8;
    ptx_take_word(p, word);
    if (ptx_take(p, "[")) {
        if (!ptx_take_until(p, ']', number))
            return false;
        count = (size_t)atoi(number);
    }
    align = align ? align : bytes;
    if (bytes == 0 || count == 0)
        return ptx_fail(p, "missing size of parameter", word);
    k->param_bytes = (k->param_bytes + align - 1) / align * align;
    *param = (struct ptx_param){ arena_text(p->arena, word), k->param_bytes, bytes * count };
    k->param_bytes += param->bytes;
    k->num_params++;
    return true;
}

static bool take_params(struct ptx_parser *p)
{
    if (!ptx_expect(p, "("))
        return false;
    while (!ptx_take(p, ")")) {
        if (!ptx_expect(p, ".param") || !take_param(p))
            return false;
        ptx_take(p, ",");
    }
    return true;
}

/* Reads .maxntid 128, 1, 1 and .minnctapersm 4. */
static bool take_limits(struct ptx_parser *p)
{
    char word[PTX_MOST_NAME], x[PTX_MOST_NAME];
    while (!ptx_take(p, "{")) {
        ptx_take_word(p, word);
        if (strcmp(word, ".maxntid") != 0 && strcmp(word, ".minnctapersm") != 0)
            return ptx_fail(p, "unknown directive", word);
        ptx_take_word(p, x);
        if (strcmp(word, ".maxntid") == 0)
            p->kernel->most_threads = atoi(x);
        while (ptx_take(p, ","))
            ptx_take_word(p, x);
    }
    return true;
}

/* Moves past the last brace of the body. */
static bool skip_body(struct ptx_parser *p)
{
    for (int depth = 1; depth > 0; p->at++) {
        if (!*p->at)
            return ptx_fail(p, "missing end of", p->kernel->name);
        p->line += *p->at == '\n';
        depth += (*p->at == '{') - (*p->at == '}');
    }
    return true;
}

static struct ptx_kernel *take_kernel(struct ptx_parser *p)
{
    char name[PTX_MOST_NAME];
    ptx_take_word(p, name);
    p->kernel = ARENA_NEW(p->arena, struct ptx_kernel);
    p->kernel->name = p->kernel->full_name = arena_text(p->arena, name);
    p->kernel->file = p->file;
    p->kernel->register_bytes = (size_t)PTX_SPECIAL_SLOT(PTX_NUM_SPECIALS);
    if (!take_params(p) || !take_limits(p))
        return NULL;
    p->kernel->shared = arena_text(p->arena, p->shared);
    p->kernel->body = p->at;
    p->kernel->body_line = p->line;
    return skip_body(p) ? p->kernel : NULL;
}

/* Reads .extern .shared .align 16 .b8 NAME[]; the position is after `.extern`. */
static bool take_shared(struct ptx_parser *p)
{
    char text[PTX_MOST_STATEMENT];
    if (!ptx_expect(p, ".shared") || !ptx_expect(p, ".align") || !ptx_take_until(p, ';', text))
        return false;
    char *name = strstr(text, ".b8"), *end = strstr(text, "[]");
    if (!name || !end || end - name - 3 >= (long)sizeof p->shared)
        return ptx_fail(p, "expected dynamic shared memory, found", text);
    *end = '\0';
    snprintf(p->shared, sizeof p->shared, "%s", name + 3);
    return true;
}

bool ptx_decode(struct arena *arena, struct ptx_kernel *kernel, struct err *err)
{
    if (kernel->insns)
        return true;
    struct ptx_parser *p = ARENA_NEW(arena, struct ptx_parser);
    *p = (struct ptx_parser){ .arena = arena, .err = err, .file = kernel->file, .kernel = kernel };
    p->at = kernel->body;
    p->line = kernel->body_line;
    snprintf(p->shared, sizeof p->shared, "%s", kernel->shared);
    return take_body(p);
}

struct ptx_kernel *ptx_parse(struct arena *arena, const char *file, const char *text,
                             struct err *err)
{
    struct ptx_parser *p = ARENA_NEW(arena, struct ptx_parser);
    struct ptx_kernel *first = NULL, **last = &first;
    char word[PTX_MOST_NAME];
    *p = (struct ptx_parser){ .arena = arena, .err = err, .at = text, .line = 1 };
    p->file = arena_text(arena, file);
    for (ptx_skip_space(p); *p->at; ptx_skip_space(p)) {
        ptx_take_word(p, word);
        if (strcmp(word, ".version") == 0 || strcmp(word, ".target") == 0 ||
            strcmp(word, ".address_size") == 0)
            ptx_skip_line(p);
        else if (strcmp(word, ".extern") == 0) {
            if (!take_shared(p))
                return NULL;
        } else if (strcmp(word, ".entry") == 0) {
            if (!(*last = take_kernel(p)))
                return NULL;
            last = &(*last)->next;
        } else if (strcmp(word, ".visible") != 0 && strcmp(word, ".weak") != 0)
            return ptx_fail(p, "unknown directive", word), NULL;
    }
    if (!first)
        ptx_fail(p, "no kernel in", file);
    return first;
}
