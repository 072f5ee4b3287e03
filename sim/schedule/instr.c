#include "sim/schedule/instr.h"

const struct opcode_info opcode_infos[NUM_OPCODES] = {
#define X(name, lane, text, form, meaning) [INSTR_##name] = { text, form, meaning, lane },
    INSTR_OPCODES(X)
#undef X
};
