#include "tests/kernels/ptx/ptx_parser.h"

#include "base/length.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ptx_special_names[PTX_NUM_SPECIALS] = { "%tid.x",    "%tid.y",    "%tid.z",
                                                          "%ntid.x",   "%ntid.y",   "%ntid.z",
                                                          "%ctaid.x",  "%ctaid.y",  "%ctaid.z",
                                                          "%nctaid.x", "%nctaid.y", "%nctaid.z" };

bool ptx_fail(struct ptx_parser *p, const char *what, const char *text)
{
    char where[200];
    snprintf(where, sizeof where, "%s:%d", p->file, p->line);
    return err_set(p->err, ERR_INPUT, where, "%s \"%s\"", what, text);
}

/* --- text --------------------------------------------------------------------------------- */

void ptx_skip_line(struct ptx_parser *p)
{
    while (*p->at && *p->at != '\n')
        p->at++;
}

void ptx_skip_space(struct ptx_parser *p)
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

void ptx_take_word(struct ptx_parser *p, char word[PTX_MOST_NAME])
{
    int n = 0;
    ptx_skip_space(p);
    while (is_of_word(*p->at) && n < PTX_MOST_NAME - 1)
        word[n++] = *p->at++;
    word[n] = '\0';
}

bool ptx_take(struct ptx_parser *p, const char *mark)
{
    ptx_skip_space(p);
    if (strncmp(p->at, mark, strlen(mark)) != 0)
        return false;
    p->at += strlen(mark);
    return true;
}

bool ptx_expect(struct ptx_parser *p, const char *mark)
{
    char here[24];
    if (ptx_take(p, mark))
        return true;
    snprintf(here, sizeof here, "%.20s", p->at);
    return ptx_fail(p, "unexpected text at", here);
}

bool ptx_take_until(struct ptx_parser *p, char mark, char text[PTX_MOST_STATEMENT])
{
    int n = 0;
    for (ptx_skip_space(p); *p->at && *p->at != mark && n < PTX_MOST_STATEMENT - 1;
         ptx_skip_space(p))
        text[n++] = *p->at++;
    text[n] = '\0';
    return *p->at == mark ? (p->at++, true) : ptx_fail(p, "missing end of", text);
}

/* --- registers ---------------------------------------------------------------------------- */

int ptx_bits_of_type(const char *type)
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

bool ptx_take_registers(struct ptx_parser *p)
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

bool ptx_find_register(const struct ptx_parser *p, const char *name, struct ptx_operand *out)
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

/* The address of shared memory or of a parameter within its space. */
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
        return fits || ptx_fail(p, "expected a register of another width, found", text);
    }
    if (!read_number(text, &value) && !find_address(p, text, &value))
        return ptx_fail(p, "neither register nor number:", text);
    if (bits < 64 && bits > 0)
        value &= (1ull << bits) - 1;
    *out = (struct ptx_operand){ constant_slot(p, bits ? bits : 32, value), bits ? bits : 32, 0 };
    return true;
}

/* Reads [base], [base+8] or [base+-8]. */
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
    return ptx_fail(p, "unknown kind of operand for", text);
}

/* Splits operands at commas outside {} into groups, and groups at commas or bars. */
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

/* Whether the groups have the lengths that the opcode requires. */
static bool has_shape(const char *operands, const char *shape)
{
    for (; *operands && *shape; operands++, shape++)
        if ((*operands == ' ') != (*shape == ' '))
            return false;
    return *operands == *shape;
}

bool ptx_read_operands(struct ptx_parser *p, struct ptx_insn *insn, char *text)
{
    char *items[PTX_MOST_OPERANDS + 1] = { 0 }, shape[64];
    char copy[PTX_MOST_STATEMENT];
    memcpy(copy, text, strlen(text) + 1);
    insn->count = split_operands(text, items, shape);
    if (!has_shape(insn->op.operands, shape) || insn->count > PTX_MOST_OPERANDS)
        return ptx_fail(p, "expected other operands, found", copy);
    const char *kind = insn->op.operands;
    for (int i = 0; i < insn->count; i++, kind++) {
        kind += *kind == ' ';
        if (!read_operand(p, *kind, items[i], &insn->at[i]))
            return false;
    }
    return true;
}

void ptx_remove_braces(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '{' && *from != '}')
            *to++ = *from;
    *to = '\0';
}
