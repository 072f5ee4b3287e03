/* sim/schedule/instr.h - what one pipeline rank does in a step, one instruction at a time.
 *
 * The simulator times these lists and the executor runs them. On one lane, instructions run in list
 * order. Across lanes, `after` names an earlier instruction of the same rank that must have
 * finished. A message is named by the chunk that makes it: SEND_ACT c.m on one rank matches
 * RECV_ACT c.m on its peer, which feeds FORWARD c+1.m there; SEND_GRAD c.m matches RECV_GRAD c.m,
 * which feeds BACKWARD c-1.m. A schedule may split a BACKWARD: the chunk before waits only for
 * BACKWARD_INPUT, and BACKWARD_WEIGHT can follow at any time.
 *
 * A FORWARD and the BACKWARD of another chunk right after it may form a pair, which runs as one
 * unit: both begin when both inputs have arrived, and both end together. In timelines the FORWARD
 * of a pair takes no time and the BACKWARD takes the time of both. An instruction that depends on
 * either of them follows the BACKWARD. */
#ifndef SIM_SCHEDULE_INSTR_H
#define SIM_SCHEDULE_INSTR_H

#include <stdbool.h>

/* In-order queues of one rank. "Down" lanes carry activations towards the loss, "up" lanes carry
 * gradients back. Every pipeline lane is one end of one directed link. Sends and receives have
 * separate lanes: with interleaved chunks the pipeline is a ring, in which each stage could block
 * on a send while the receive that it needs is queued behind its neighbour's blocked send. In a V,
 * the second half of the chunks runs back up the stages; its messages use other links, whose lanes
 * are numbered after those that every step has. */
enum lane {
    LANE_COMPUTE,
    LANE_SEND_DOWN,
    LANE_RECV_DOWN,
    LANE_SEND_UP,
    LANE_RECV_UP,
    LANE_DATA,
    NUM_LANES,
    LANE_TURNED_SEND_DOWN = NUM_LANES,
    LANE_TURNED_RECV_DOWN,
    LANE_TURNED_SEND_UP,
    LANE_TURNED_RECV_UP,
    NUM_ALL_LANES
};

// clang-format off
/* `form` lists the fields written after the opcode: c chunk, m microbatch, p peer. The other fields
 * are -1. */
#define INSTR_OPCODES(X)                                                                                          \
    /* name            lane            text   form     meaning */                                                 \
    X(FORWARD,         LANE_COMPUTE,   "F",   "c.m",   "forward of one microbatch through one chunk")             \
    X(BACKWARD,        LANE_COMPUTE,   "B",   "c.m",   "backward: gradients of inputs and of weights")            \
    X(BACKWARD_INPUT,  LANE_COMPUTE,   "BI",  "c.m",   "first half of a split backward: gradients of inputs")     \
    X(BACKWARD_WEIGHT, LANE_COMPUTE,   "BW",  "c.m",   "second half of a split backward: gradients of weights")   \
    X(RECOMPUTE,       LANE_COMPUTE,   "R",   "c.m",   "recompute: the forward again, just before its backward")  \
    X(SEND_ACT,        LANE_SEND_DOWN, "SA",  "c.m>p", "send a chunk's activations to the next chunk")              \
    X(RECV_ACT,        LANE_RECV_DOWN, "RA",  "c.m<p", "receive a chunk's activations for the next chunk")          \
    X(SEND_GRAD,       LANE_SEND_UP,   "SG",  "c.m>p", "send a chunk's input gradients to the previous chunk")      \
    X(RECV_GRAD,       LANE_RECV_UP,   "RG",  "c.m<p", "receive a chunk's input gradients for the previous chunk")  \
    X(GATHER_PARAM,    LANE_DATA,      "GP",  "c",     "all-gather a chunk's sharded parameters")                 \
    X(REDUCE_GRAD,     LANE_DATA,      "DG",  "c",     "reduce a chunk's gradients over the data group")          \
    X(MIX_PARAM,       LANE_DATA,      "MP",  "c",     "average a chunk's parameters with those of other data ranks")\
    X(REDUCE_TIED,     LANE_DATA,      "DT",  ">p",    "all-reduce tied embedding gradients of first and last stage")\
    X(NORM_GRAD,       LANE_DATA,      "DN",  "",      "norm of all gradients, over all ranks")                   \
    X(OPTIMIZER,       LANE_COMPUTE,   "OPT", "",      "parameter update")

enum opcode {
#define X(name, lane, text, form, meaning) INSTR_##name,
    INSTR_OPCODES(X)
#undef X
};

/* The count is not a member of the enum, so that a switch over opcodes needs no case for it. */
#define X(name, lane, text, form, meaning) +1
enum { NUM_OPCODES = 0 INSTR_OPCODES(X) };
#undef X
// clang-format on

struct opcode_info {
    const char *text;
    const char *form;
    const char *meaning;
    enum lane lane;
};
extern const struct opcode_info opcode_infos[NUM_OPCODES];

/* instr_starts_backward: the opcode needs the gradient of a chunk's output. instr_ends_backward:
 * the opcode computes the chunk's weight gradients. */
static inline bool instr_starts_backward(enum opcode op)
{
    return op == INSTR_BACKWARD || op == INSTR_BACKWARD_INPUT;
}

static inline bool instr_ends_backward(enum opcode op)
{
    return op == INSTR_BACKWARD || op == INSTR_BACKWARD_WEIGHT;
}

static inline bool instr_is_receive(enum opcode op)
{
    return op == INSTR_RECV_ACT || op == INSTR_RECV_GRAD;
}

/* The opcode that matches a send, a receive or a REDUCE_TIED on the peer. */
enum opcode instr_far_opcode(enum opcode op);

#define NO_INSTR (-1)

struct instr {
    enum opcode op;
    int chunk;      /* chunk of the model (placement.h gives its stage); -1: the opcode has none */
    int microbatch; /* from 0; -1: the opcode has none */
    int peer;       /* pipeline rank for sends, receives and REDUCE_TIED; -1 otherwise */
    int after;      /* index in this rank's list, or NO_INSTR */
    int is_turned;  /* a message of a chunk of the second half of a V, whose chunks go back up the
                       stages */
    int is_paired;  /* a FORWARD or BACKWARD that belongs to a pair */
};

static inline enum lane instr_lane(const struct instr *instr)
{
    enum lane lane = opcode_infos[instr->op].lane;
    return instr->is_turned ? lane - LANE_SEND_DOWN + LANE_TURNED_SEND_DOWN : lane;
}

/* The peer's lane at the other end of the link. */
enum lane lane_far(enum lane lane);

#endif
