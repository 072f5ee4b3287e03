/* tests/kernels/ptx/ptx_parser.h - reads words, registers and operands of PTX. Only ptx_module.c
 * includes it. */
#ifndef TESTS_KERNELS_PTX_PTX_PARSER_H
#define TESTS_KERNELS_PTX_PTX_PARSER_H

#include "base/arena.h"
#include "tests/kernels/ptx/ptx_kernel.h"

enum {
    PTX_MOST_NAME = 256,
    PTX_MOST_DECLARED = 64,
    PTX_MOST_STATEMENT = 1024,
    PTX_MOST_LABELS = 4096
};

/* `.reg .b32 %r<7>` declares %r0 to %r6, and `.reg .b32 %temp` one register. */
struct ptx_declared {
    char prefix[32];
    int count; /* 0: a single register, named by the prefix */
    int bits, first_slot;
};

struct ptx_label {
    const char *name;
    int at; /* index of the label's instruction */
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

bool ptx_fail(struct ptx_parser *p, const char *what, const char *text);
void ptx_skip_line(struct ptx_parser *p);
void ptx_skip_space(struct ptx_parser *p);

/* Reads the word at the parser's position and moves past it. */
void ptx_take_word(struct ptx_parser *p, char word[PTX_MOST_NAME]);
bool ptx_take(struct ptx_parser *p, const char *mark);
bool ptx_expect(struct ptx_parser *p, const char *mark);

/* Reads the text up to `mark`, leaves out its spaces, and moves past the mark. */
bool ptx_take_until(struct ptx_parser *p, char mark, char text[PTX_MOST_STATEMENT]);
int ptx_bits_of_type(const char *type);

/* Reads the rest of `.reg .TYPE NAME, NAME...;`, of which the caller has read `.reg`. */
bool ptx_take_registers(struct ptx_parser *p);

/* Finds a register by name. If several declarations match, the latest counts, as it belongs to the
 * innermost scope. */
bool ptx_find_register(const struct ptx_parser *p, const char *name, struct ptx_operand *out);
bool ptx_read_operands(struct ptx_parser *p, struct ptx_insn *insn, char *text);

/* Removes the braces around several registers, so that the registers are ordinary operands. */
void ptx_remove_braces(char *text);

#endif
