#include "sim/schedule/instr.h"

const struct opcode_info opcode_infos[NUM_OPCODES] = {
#define X(name, lane, text, form, meaning) [INSTR_##name] = { text, form, meaning, lane },
    INSTR_OPCODES(X)
#undef X
};

bool instr_starts_backward(enum opcode op)
{
    return op == INSTR_BACKWARD || op == INSTR_BACKWARD_INPUT;
}

bool instr_ends_backward(enum opcode op)
{
    return op == INSTR_BACKWARD || op == INSTR_BACKWARD_WEIGHT;
}
