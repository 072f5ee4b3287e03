#include "tests/kernels/ptx/ptx_module.h"

#include "base/length.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ptx_special_names[PTX_NUM_SPECIALS] = { "%tid.x",    "%tid.y",    "%tid.z",
                                                          "%ntid.x",   "%ntid.y",   "%ntid.z",
                                                          "%ctaid.x",  "%ctaid.y",  "%ctaid.z",
                                                          "%nctaid.x", "%nctaid.y", "%nctaid.z" };

enum {
    PTX_MOST_NAME = 256,
    PTX_MOST_DECLARED = 64,
    PTX_MOST_STATEMENT = 1024,
    PTX_MOST_LABELS = 4096
};

/* `.reg .b32 %r<7>` declares %r0 to %r6, and `.reg .b32 %temp` one register. */
struct ptx_declared {
    char prefix[32];
    int count; /* 0: the prefix is the whole name */
    int bits, first_slot;
};

struct ptx_label {
    const char *name;
    int at; /* instruction */
};

struct ptx_parser {
    struct arena *arena;
    struct err *err;
    const char *file, *at;
    int line;
    char shared[64]; /* the name of dynamic shared memory */
    struct ptx_kernel *kernel;
    int most_insns, most_constants;
    struct ptx_declared declared[PTX_MOST_DECLARED];
    int num_declared;
    struct ptx_label labels[PTX_MOST_LABELS];
    int num_labels;
};

static bool ptx_fail(struct ptx_parser *p, const char *what, const char *text)
{
    char where[200];
    snprintf(where, sizeof where, "%s:%d", p->file, p->line);
    return err_set(p->err, ERR_INPUT, where, "%s \"%s\"", what, text);
}

/* --- text --------------------------------------------------------------------------------- */

static void ptx_skip_line(struct ptx_parser *p)
{
    while (*p->at && *p->at != '\n')
        p->at++;
}

static void ptx_skip_space(struct ptx_parser *p)
{
    for (;; p->at++)
        if (p->at[0] == '/' && p->at[1] == '/') {
            ptx_skip_line(p);
            p->line += *p->at == '\n';
            if (!*p->at)
                return;
        } else if (*p->at == '\n')
            p->line++;
        else if (!*p->at || !isspace((unsigned char)*p->at))
            return;
}

static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("._$%", c));
}

/* The word at the parser's place, which moves behind it. */
static void ptx_take_word(struct ptx_parser *p, char word[PTX_MOST_NAME])
{
    int n = 0;
    ptx_skip_space(p);
    while (is_of_word(*p->at) && n < PTX_MOST_NAME - 1)
        word[n++] = *p->at++;
    word[n] = '\0';
}

static bool ptx_take(struct ptx_parser *p, const char *mark)
{
    ptx_skip_space(p);
    if (strncmp(p->at, mark, strlen(mark)) != 0)
        return false;
    p->at += strlen(mark);
    return true;
}

static bool ptx_expect(struct ptx_parser *p, const char *mark)
{
    char here[24];
    if (ptx_take(p, mark))
        return true;
    snprintf(here, sizeof here, "%.20s", p->at);
    return ptx_fail(p, "another mark is expected at", here);
}

/* Up to the mark, without space. */
static bool ptx_take_until(struct ptx_parser *p, char mark, char text[PTX_MOST_STATEMENT])
{
    int n = 0;
    for (ptx_skip_space(p); *p->at && *p->at != mark && n < PTX_MOST_STATEMENT - 1;
         ptx_skip_space(p))
        text[n++] = *p->at++;
    text[n] = '\0';
    return *p->at == mark ? (p->at++, true) : ptx_fail(p, "no end of", text);
}

/* --- registers ---------------------------------------------------------------------------- */

static int ptx_bits_of_type(const char *type)
{
    return strcmp(type, ".pred") == 0 ? 1 : atoi(type + strcspn(type, "0123456789"));
}

static int new_slot(struct ptx_parser *p, int bits)
{
    int slot = (int)p->kernel->register_bytes, bytes = bits < 16 ? 4 : bits / 8;
    size_t size = bits == 1 ? 4 : (size_t)PTX_LANES * (size_t)bytes;
    p->kernel->register_bytes += (size + 63) / 64 * 64;
    return slot;
}

static bool declare(struct ptx_parser *p, int bits, const char *name)
{
    struct ptx_declared *d = &p->declared[p->num_declared];
    size_t length = strcspn(name, "<");
    if (p->num_declared == PTX_MOST_DECLARED || length >= sizeof d->prefix)
        return ptx_fail(p, "too many registers at", name);
    memcpy(d->prefix, name, length);
    d->prefix[length] = '\0';
    d->count = name[length] ? atoi(name + length + 1) : 0;
    d->bits = bits;
    d->first_slot = (int)p->kernel->register_bytes;
    for (int i = 0; i < (d->count ? d->count : 1); i++)
        new_slot(p, bits);
    p->num_declared++;
    return true;
}

/* .reg .TYPE NAME, NAME...; behind `.reg`. */
static bool ptx_take_registers(struct ptx_parser *p)
{
    char type[PTX_MOST_NAME], names[PTX_MOST_STATEMENT];
    ptx_take_word(p, type);
    if (!ptx_take_until(p, ';', names))
        return false;
    int bits = ptx_bits_of_type(type);
    if (bits != 1 && bits != 16 && bits != 32 && bits != 64)
        return ptx_fail(p, "unknown type of registers", type);
    for (char *rest = NULL, *name = strtok_r(names, ",", &rest); name;
         name = strtok_r(NULL, ",", &rest))
        if (!declare(p, bits, name))
            return false;
    return true;
}

/* The latest declaration, which is of the innermost scope. */
static bool ptx_find_register(const struct ptx_parser *p, const char *name, struct ptx_operand *out)
{
    for (int i = 0; i < PTX_NUM_SPECIALS; i++)
        if (strcmp(name, ptx_special_names[i]) == 0) {
            *out = (struct ptx_operand){ PTX_SPECIAL_SLOT(i), 32, 0 };
            return true;
        }
    size_t letters = strcspn(name, "0123456789");
    for (int i = p->num_declared - 1; i >= 0; i--) {
        const struct ptx_declared *d = &p->declared[i];
        size_t length = d->count ? letters : strlen(name);
        int number = d->count ? atoi(name + letters) : 0;
        if (strlen(d->prefix) != length || strncmp(d->prefix, name, length) != 0 ||
            (d->count && number >= d->count))
            continue;
        int size = d->bits == 1 ? 64 : PTX_LANES * d->bits / 8;
        *out = (struct ptx_operand){ d->first_slot + number * size, d->bits, 0 };
        return true;
    }
    return false;
}

static int constant_slot(struct ptx_parser *p, int bits, uint64_t value)
{
    struct ptx_kernel *k = p->kernel;
    for (int i = 0; i < k->num_constants; i++)
        if (k->constants[i].bits == bits && k->constants[i].value == value)
            return k->constants[i].slot;
    if (k->num_constants == p->most_constants) {
        struct ptx_constant *old = k->constants;
        p->most_constants = 2 * p->most_constants + 64;
        k->constants = ARENA_ARRAY(p->arena, struct ptx_constant, (size_t)p->most_constants);
        if (old)
            memcpy(k->constants, old, sizeof *old * (size_t)k->num_constants);
    }
    int slot = new_slot(p, bits);
    k->constants[k->num_constants++] = (struct ptx_constant){ slot, bits, value };
    return slot;
}

/* --- operands ----------------------------------------------------------------------------- */

/* 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX are the bits of a float and of a double. */
static bool read_number(const char *text, uint64_t *out)
{
    char *end;
    bool is_float = text[0] == '0' && text[1] && strchr("fFdD", text[1]);
    if (is_float)
        *out = strtoull(text + 2, &end, 16);
    else if (text[0] == '-')
        *out = (uint64_t)strtoll(text, &end, 0);
    else
        *out = strtoull(text, &end, 0);
    return end > text && (*end == '\0' || (*end == 'U' && end[1] == '\0'));
}

/* Shared memory and parameters: where they are in their space. */
static bool find_address(const struct ptx_parser *p, const char *name, uint64_t *out)
{
    if (p->shared[0] && strcmp(name, p->shared) == 0) {
        *out = PTX_SHARED_BASE;
        return true;
    }
    for (int i = 0; i < p->kernel->num_params; i++)
        if (strcmp(name, p->kernel->params[i].name) == 0) {
            *out = p->kernel->params[i].offset;
            return true;
        }
    return false;
}

static bool read_value(struct ptx_parser *p, const char *text, int bits, struct ptx_operand *out)
{
    uint64_t value;
    if (ptx_find_register(p, text, out)) {
        bool fits = bits == 0 || out->bits == bits;
        return fits || ptx_fail(p, "a register of another width is expected than", text);
    }
    if (!read_number(text, &value) && !find_address(p, text, &value))
        return ptx_fail(p, "neither register nor number:", text);
    if (bits < 64 && bits > 0)
        value &= (1ull << bits) - 1;
    *out = (struct ptx_operand){ constant_slot(p, bits ? bits : 32, value), bits ? bits : 32, 0 };
    return true;
}

/* [base], [base+8], [base+-8] */
static bool read_address(struct ptx_parser *p, char *text, struct ptx_operand *out)
{
    size_t length = strlen(text);
    uint64_t offset = 0;
    if (length < 3 || text[0] != '[' || text[length - 1] != ']')
        return ptx_fail(p, "no address:", text);
    text[length - 1] = '\0';
    char *plus = strchr(text, '+');
    if (plus)
        *plus++ = '\0';
    if (plus && !read_number(plus, &offset))
        return ptx_fail(p, "no offset:", plus);
    bool is_symbol = text[1] != '%';
    if (!read_value(p, text + 1, is_symbol ? 64 : 0, out))
        return false;
    out->value = (int64_t)offset;
    return true;
}

static bool read_operand(struct ptx_parser *p, char kind, char *text, struct ptx_operand *out)
{
    uint64_t value;
    switch (kind) {
    case 'p':
        return read_value(p, text, 1, out);
    case 'h':
        return read_value(p, text, 16, out);
    case 'w':
        return read_value(p, text, 32, out);
    case 'd':
        return read_value(p, text, 64, out);
    case '*':
        return read_value(p, text, 0, out);
    case 'm':
        return read_address(p, text, out);
    case 'i':
        if (!read_number(text, &value))
            return ptx_fail(p, "no number:", text);
        out->value = (int64_t)value;
        return true;
    case 'l':
        for (int i = 0; i < p->num_labels; i++)
            if (strcmp(p->labels[i].name, text) == 0) {
                out->value = p->labels[i].at;
                return true;
            }
        return ptx_fail(p, "no such label:", text);
    }
    return ptx_fail(p, "no kind of operand for", text);
}

/* Splits at commas that are not within {} into groups, and groups at commas or bars. */
static int split_operands(char *text, char *items[PTX_MOST_OPERANDS + 1], char shape[64])
{
    int count = 0, n = 0;
    bool is_inside = false;
    char *begin = text;
    for (char *c = text;; c++) {
        bool ends = !*c || *c == ',' || *c == '|' || *c == '}';
        if (*c == '{')
            begin = c + 1;
        is_inside = *c == '{' || (is_inside && *c != '}');
        if (!ends)
            continue;
        char mark = *c;
        *c = '\0';
        if (c > begin && count <= PTX_MOST_OPERANDS && n < 60) {
            items[count++] = begin;
            shape[n++] = 'x';
        }
        if (mark == ',' && !is_inside && n > 0)
            shape[n++] = ' ';
        begin = c + 1;
        if (!mark)
            break;
    }
    shape[n] = '\0';
    return count;
}

/* Whether groups are as long as the opcode wants them. */
static bool has_shape(const char *operands, const char *shape)
{
    for (; *operands && *shape; operands++, shape++)
        if ((*operands == ' ') != (*shape == ' '))
            return false;
    return *operands == *shape;
}

static bool ptx_read_operands(struct ptx_parser *p, struct ptx_insn *insn, char *text)
{
    char *items[PTX_MOST_OPERANDS + 1], shape[64];
    char copy[PTX_MOST_STATEMENT];
    memcpy(copy, text, strlen(text) + 1);
    insn->count = split_operands(text, items, shape);
    if (!has_shape(insn->op.operands, shape) || insn->count > PTX_MOST_OPERANDS)
        return ptx_fail(p, "other operands are expected than", copy);
    const char *kind = insn->op.operands;
    for (int i = 0; i < insn->count; i++, kind++) {
        kind += *kind == ' ';
        if (!read_operand(p, *kind, items[i], &insn->at[i]))
            return false;
    }
    return true;
}

/* A pack's parts are operands like others. */
static void ptx_remove_braces(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '{' && *from != '}')
            *to++ = *from;
    *to = '\0';
}

/* --- statements --------------------------------------------------------------------------- */

/* A conversion may take the low half of a register that is wider than what it converts. */
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

/* Positions of labels first, since branches go forward too: instructions end in ';'. */
static bool find_labels(struct ptx_parser *p)
{
    struct ptx_parser scan = *p;
    int depth = 1, count = 0;
    char word[PTX_MOST_NAME], text[PTX_MOST_STATEMENT];
    p->num_labels = 0;
    while (depth > 0) {
        ptx_skip_space(&scan);
        if (!*scan.at)
            return ptx_fail(p, "no end of", p->kernel->name);
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
            return ptx_fail(p, "no end of", text);
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

/* .param .align 8 .b8 NAME[48], or .param .u64 NAME */
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
        return ptx_fail(p, "no size of parameter", word);
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

/* .maxntid 128, 1, 1 and .minnctapersm 4 */
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

/* Moves behind the body's last brace. */
static bool skip_body(struct ptx_parser *p)
{
    for (int depth = 1; depth > 0; p->at++) {
        if (!*p->at)
            return ptx_fail(p, "no end of", p->kernel->name);
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
    p->kernel->name = arena_text(p->arena, name);
    p->kernel->file = p->file;
    p->kernel->register_bytes = (size_t)PTX_SPECIAL_SLOT(PTX_NUM_SPECIALS);
    if (!take_params(p) || !take_limits(p))
        return NULL;
    p->kernel->shared = arena_text(p->arena, p->shared);
    p->kernel->body = p->at;
    p->kernel->body_line = p->line;
    return skip_body(p) ? p->kernel : NULL;
}

/* .extern .shared .align 16 .b8 NAME[]; behind `.extern` */
static bool take_shared(struct ptx_parser *p)
{
    char text[PTX_MOST_STATEMENT];
    if (!ptx_expect(p, ".shared") || !ptx_expect(p, ".align") || !ptx_take_until(p, ';', text))
        return false;
    char *name = strstr(text, ".b8"), *end = strstr(text, "[]");
    if (!name || !end || end - name - 3 >= (long)sizeof p->shared)
        return ptx_fail(p, "no dynamic shared memory:", text);
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
