/* sim/schedule/proof.h - functions shared by the files that implement schedule_check; only these
 * include it. */
#ifndef SIM_SCHEDULE_PROOF_H
#define SIM_SCHEDULE_PROOF_H

#include "sim/schedule/schedule.h"

/* For one instruction: how many instructions of each lane (in-order queue) of its rank have
 * certainly finished when it starts, whatever the times are. The order of lanes and `after` imply
 * it. */
struct known {
    int finished[NUM_ALL_LANES];
};

/* One stage that is checked. Tables by microbatch are indexed by slot_key() of the chunk on this
 * stage that makes or needs the message. */
struct proof {
    const struct schedule *schedule;
    const long long *totals; /* [NUM_OPCODES] counts over all stages */
    int stage;
    const struct instrs *list;
    struct known *known; /* [instruction] */
    int *place;          /* [instruction] its index within its lane */
    /* [opcode][slot_key()]: index of the instruction; NO_INSTR: there is none */
    int *found[NUM_OPCODES];
    struct err *err;
};

/* Sets the error's `where` and returns false. `instr` may be NO_INSTR. */
bool proof_fail(const struct proof *proof, int instr, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Text of an instruction. It is returned by value so that one message can quote two
 * instructions. */
struct instr_text {
    char at[48];
};
struct instr_text proof_text(const struct proof *proof, int instr);

/* Fails unless `earlier` has finished when `later` starts, whatever the times are. */
bool proof_ordered(const struct proof *proof, int earlier, int later);

/* Check the gathers, reductions and update of one stage (check_state.c). */
bool proof_parameters(const struct proof *proof, struct arena *scratch);
bool proof_reductions(const struct proof *proof, struct arena *scratch);
bool proof_update(const struct proof *proof, struct arena *scratch);

/* Checks that all stages together finish even if no message is buffered (deadlock.c). */
bool schedule_finishes(const struct schedule *schedule, struct arena *scratch, struct err *err);

#endif
