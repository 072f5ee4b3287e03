/* Names and relations of instructions. */
#include "sim/schedule/instr.h"

const struct opcode_info opcode_infos[NUM_OPCODES] = {
#define X(name, lane, text, form, meaning) [INSTR_##name] = { text, form, meaning, lane },
    INSTR_OPCODES(X)
#undef X
};

enum lane lane_far(enum lane lane)
{
    static const enum lane far[NUM_ALL_LANES] = {
        [LANE_COMPUTE] = LANE_COMPUTE,
        [LANE_SEND_DOWN] = LANE_RECV_DOWN,
        [LANE_RECV_DOWN] = LANE_SEND_DOWN,
        [LANE_SEND_UP] = LANE_RECV_UP,
        [LANE_RECV_UP] = LANE_SEND_UP,
        [LANE_DATA] = LANE_DATA,
        [LANE_TURNED_SEND_DOWN] = LANE_TURNED_RECV_DOWN,
        [LANE_TURNED_RECV_DOWN] = LANE_TURNED_SEND_DOWN,
        [LANE_TURNED_SEND_UP] = LANE_TURNED_RECV_UP,
        [LANE_TURNED_RECV_UP] = LANE_TURNED_SEND_UP,
    };
    return far[lane];
}

enum opcode instr_far_opcode(enum opcode op)
{
    if (op == INSTR_SEND_ACT)
        return INSTR_RECV_ACT;
    if (op == INSTR_RECV_ACT)
        return INSTR_SEND_ACT;
    if (op == INSTR_SEND_GRAD)
        return INSTR_RECV_GRAD;
    if (op == INSTR_RECV_GRAD)
        return INSTR_SEND_GRAD;
    return op; /* REDUCE_TIED has the same opcode at both ends */
}
