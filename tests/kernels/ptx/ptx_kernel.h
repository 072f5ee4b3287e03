/* tests/kernels/ptx/ptx_kernel.h - a decoded kernel: its instructions, and the slots of its
 * registers.
 *
 * The values of a register in all lanes of a warp are adjacent; a slot is their offset in the
 * warp's registers. Constants and special registers have slots too, which are filled before a
 * kernel starts, so that an instruction only ever reads slots. */
#ifndef TESTS_KERNELS_PTX_PTX_KERNEL_H
#define TESTS_KERNELS_PTX_PTX_KERNEL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PTX_LANES = 32,
    PTX_MOST_OPERANDS = 14,
    PTX_SHARED_BASE = 1024 /* a GPU reserves the first KiB of a block's shared memory */
};

enum ptx_kind {
    PTX_EACH_LANE, /* instructions of this class are executed by run() only */
    PTX_LOAD,
    PTX_STORE,
    PTX_ATOMIC_ADD,
    PTX_ATOMIC_MIN,
    PTX_COPY_ASYNC,
    PTX_COPY_COMMIT,
    PTX_COPY_WAIT,
    PTX_LOAD_MATRICES,
    PTX_LOAD_MATRICES_TRANSPOSED,
    PTX_MULTIPLY_BF16,
    PTX_MULTIPLY_FP16,
    PTX_SHUFFLE_XOR,
    PTX_SHUFFLE_INDEX,
    PTX_BALLOT,
    PTX_BARRIER,
    PTX_WARP_BARRIER,
    PTX_BRANCH,
    PTX_RETURN
};

enum ptx_space { PTX_GLOBAL, PTX_SHARED, PTX_PARAM };

struct ptx_insn;

/* The meaning of an opcode with its modifiers. */
struct ptx_opcode {
    const char *name;
    /* Kinds of operands, grouped as in the PTX text: h, w, d have 16, 32, 64 bits, p is a
     * predicate, * a register of any width, m an address, i a number, l a label. */
    const char *operands;
    enum ptx_kind kind;
    void (*run)(const struct ptx_insn *insn, char *registers, uint32_t lanes);
    enum ptx_space space;
    int count, bytes; /* memory access: number of values, and bytes of each */
};

/* False when the interpreter does not know the opcode. */
bool ptx_find_opcode(const char *name, struct ptx_opcode *out);

struct ptx_operand {
    int slot, bits; /* of a register: its slot and its number of bits; a predicate has 1 bit */
    int64_t value;  /* a number, an address's offset, or the index of a label's instruction */
};

struct ptx_insn {
    struct ptx_opcode op;
    struct ptx_operand at[PTX_MOST_OPERANDS];
    int count;
    int guard; /* slot of the predicate, or -1 */
    bool guard_is_negated;
    int line; /* line in the PTX text */
};

struct ptx_param {
    const char *name;
    size_t offset, bytes;
};

/* A constant, whose slot is filled before a kernel starts. */
struct ptx_constant {
    int slot, bits;
    uint64_t value;
};

enum { PTX_MOST_PARAMS = 8 };

struct ptx_kernel {
    const char *name, *file;
    const char *full_name; /* the name in the PTX text; `name` is a shorter one (ptx_library.h) */
    struct ptx_param params[PTX_MOST_PARAMS];
    int num_params;
    size_t param_bytes;
    const char *shared; /* name of dynamic shared memory in the PTX text */
    const char *body;   /* beginning of the kernel's body in the PTX text */
    int body_line;
    struct ptx_insn *insns; /* NULL until ptx_decode */
    int num_insns;
    uint8_t *is_executed; /* for each instruction, whether ptx_run has executed it */
    struct ptx_constant *constants;
    int num_constants;
    size_t register_bytes;
    int most_threads; /* value of .maxntid; 0: not stated */
    struct ptx_kernel *next;
};

/* Slots of the special registers, 32 bits each, in the order of ptx_special_names. */
enum {
    PTX_TID,
    PTX_NTID = PTX_TID + 3,
    PTX_CTAID = PTX_NTID + 3,
    PTX_NCTAID = PTX_CTAID + 3,
    PTX_NUM_SPECIALS = PTX_NCTAID + 3
};
extern const char *const ptx_special_names[PTX_NUM_SPECIALS];
enum { PTX_WORD_SLOT = PTX_LANES * 4 };
#define PTX_SPECIAL_SLOT(i) ((i)*PTX_WORD_SLOT)

#endif
