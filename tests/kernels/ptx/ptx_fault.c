#include "tests/kernels/ptx/ptx_fault.h"

#include <string.h>

static void do_nothing(const struct ptx_insn *insn, char *registers, uint32_t lanes)
{
    (void)insn, (void)registers, (void)lanes;
}

static const struct ptx_constant *constant_in(const struct ptx_kernel *kernel, int slot)
{
    for (int i = 0; i < kernel->num_constants; i++)
        if (kernel->constants[i].slot == slot)
            return &kernel->constants[i];
    return NULL;
}

/* Whether the instruction contains the operand's number itself, instead of a register slot that
 * holds it. */
static bool has_number(const struct ptx_insn *insn)
{
    return insn->op.kind != PTX_EACH_LANE;
}

static bool is_meant(const struct ptx_kernel *kernel, int i, const struct ptx_fault *fault)
{
    const struct ptx_insn *insn = &kernel->insns[i];
    return kernel->is_executed[i] && strcmp(insn->op.name, fault->opcode) == 0 &&
           (fault->kind != PTX_SHIFT || has_number(insn) ||
            constant_in(kernel, insn->at[fault->a].slot));
}

static int count_meant(const struct ptx_kernel *kernel, const struct ptx_fault *fault)
{
    int count = 0;
    for (int i = 0; i < kernel->num_insns; i++)
        count += is_meant(kernel, i, fault);
    return count;
}

static struct ptx_insn *find_meant(struct ptx_kernel *kernel, const struct ptx_fault *fault)
{
    int skipped = (int)(fault->which * count_meant(kernel, fault));
    for (int i = 0; i < kernel->num_insns; i++)
        if (is_meant(kernel, i, fault) && skipped-- == 0)
            return &kernel->insns[i];
    return NULL;
}

/* If the number of an operand is stored in a register slot, gives the operand a new slot with the
 * changed number. */
static void shift_constant(struct arena *arena, struct ptx_kernel *kernel,
                           struct ptx_operand *operand, int more)
{
    const struct ptx_constant *old = constant_in(kernel, operand->slot);
    struct ptx_constant *all =
        ARENA_ARRAY(arena, struct ptx_constant, (size_t)kernel->num_constants + 1);
    memcpy(all, kernel->constants, sizeof *all * (size_t)kernel->num_constants);
    operand->slot = (int)kernel->register_bytes;
    all[kernel->num_constants++] =
        (struct ptx_constant){ operand->slot, old->bits, old->value + (uint64_t)(int64_t)more };
    kernel->constants = all;
    kernel->register_bytes += PTX_LANES * sizeof(uint64_t);
}

bool ptx_fault_make(struct arena *arena, struct ptx_kernel *kernel, const struct ptx_fault *fault)
{
    struct ptx_insn *insn = find_meant(kernel, fault);
    if (!insn)
        return false;
    struct ptx_operand *a = &insn->at[fault->a], *b = &insn->at[fault->b], kept = *a;
    switch (fault->kind) {
    case PTX_SWAP:
        *a = *b;
        *b = kept;
        return true;
    case PTX_DROP:
        insn->op.kind = PTX_EACH_LANE;
        insn->op.run = do_nothing;
        return true;
    case PTX_SHIFT:
        if (has_number(insn))
            a->value += fault->b;
        else
            shift_constant(arena, kernel, a, fault->b);
        return true;
    case PTX_BECOME:
        return ptx_find_opcode(fault->other, &insn->op);
    }
    return false;
}
