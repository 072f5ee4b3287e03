/* Instructions that touch memory, or that lanes execute together: PTX ISA 9.0, sections 9.7.9 to
 * 9.7.14. */
#include "tests/kernels/ptx/ptx_warp.h"

#include "kernels/host/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An instruction, and the lanes that execute it together. */
struct step {
    struct ptx_block *block;
    struct ptx_warp *warp;
    const struct ptx_insn *insn;
    uint32_t lanes;
};

#define EACH_LANE(lane, lanes)                                                                \
    for (uint32_t left = (lanes), lane; left && (lane = (uint32_t)__builtin_ctz(left), true); \
         left &= left - 1)

static bool fail(const struct step *s, const char *what)
{
    return err_set(s->block->err, ERR_INPUT, "", "%s", what);
}

/* --- registers ---------------------------------------------------------------------------- */

static uint32_t *words(const struct step *s, int operand)
{
    return (uint32_t *)(void *)(s->warp->registers + s->insn->at[operand].slot);
}

static uint64_t get(const struct step *s, int operand, uint32_t lane)
{
    const char *slot = s->warp->registers + s->insn->at[operand].slot;
    switch (s->insn->at[operand].bits) {
    case 16:
        return ((const uint16_t *)(const void *)slot)[lane];
    case 32:
        return ((const uint32_t *)(const void *)slot)[lane];
    default:
        return ((const uint64_t *)(const void *)slot)[lane];
    }
}

/* Writes a value to a register. Upper bits of a wider register become zero. */
static void put(const struct step *s, int operand, uint32_t lane, uint64_t value)
{
    char *slot = s->warp->registers + s->insn->at[operand].slot;
    switch (s->insn->at[operand].bits) {
    case 16:
        ((uint16_t *)(void *)slot)[lane] = (uint16_t)value;
        break;
    case 32:
        ((uint32_t *)(void *)slot)[lane] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)(void *)slot)[lane] = value;
    }
}

static uint64_t address(const struct step *s, int operand, uint32_t lane)
{
    return get(s, operand, lane) + (uint64_t)s->insn->at[operand].value;
}

/* --- memory ------------------------------------------------------------------------------- */

static struct ptx_toucher toucher(const struct step *s, uint32_t lane)
{
    return (struct ptx_toucher){ s->warp->first_thread + lane, s->block->epoch, s->warp->epoch };
}

static void *touch_shared(const struct step *s, uint32_t lane, uint64_t at, size_t bytes,
                          enum ptx_touch touch)
{
    return ptx_touch_shared(&s->block->machine->memory, (uint32_t)at, bytes, touch,
                            toucher(s, lane), s->block->err);
}

static void *touch_global(const struct step *s, uint32_t lane, uint64_t at, size_t bytes,
                          enum ptx_touch touch)
{
    return ptx_touch_global(&s->block->machine->memory, at, bytes, touch, toucher(s, lane),
                            s->block->err);
}

static const void *param_at(const struct step *s, uint64_t at, size_t bytes)
{
    const struct ptx_kernel *k = s->block->launch->kernel;
    if (at <= k->param_bytes && bytes <= k->param_bytes - at)
        return s->block->params + at;
    fail(s, "reads beyond the parameters");
    return NULL;
}

static bool load(const struct step *s)
{
    const struct ptx_opcode *op = &s->insn->op;
    size_t bytes = (size_t)op->bytes, all = bytes * (size_t)op->count;
    EACH_LANE(lane, s->lanes)
    {
        uint64_t at = address(s, op->count, lane);
        const char *from = op->space == PTX_PARAM    ? param_at(s, at, all)
                           : op->space == PTX_SHARED ? touch_shared(s, lane, at, all, PTX_READ)
                                                     : touch_global(s, lane, at, all, PTX_READ);
        if (!from)
            return false;
        for (int i = 0; i < op->count; i++) {
            uint64_t value = 0;
            memcpy(&value, from + (size_t)i * bytes, bytes);
            put(s, i, lane, value);
        }
    }
    return true;
}

static bool store(const struct step *s)
{
    const struct ptx_opcode *op = &s->insn->op;
    size_t bytes = (size_t)op->bytes, all = bytes * (size_t)op->count;
    EACH_LANE(lane, s->lanes)
    {
        uint64_t at = address(s, 0, lane);
        char *to = op->space == PTX_SHARED ? touch_shared(s, lane, at, all, PTX_WRITE)
                                           : touch_global(s, lane, at, all, PTX_WRITE);
        if (!to)
            return false;
        for (int i = 0; i < op->count; i++) {
            uint64_t value = get(s, 1 + i, lane);
            memcpy(to + (size_t)i * bytes, &value, bytes);
        }
    }
    return true;
}

static bool update(const struct step *s)
{
    EACH_LANE(lane, s->lanes)
    {
        uint64_t at = address(s, 1, lane);
        uint32_t before, other = (uint32_t)get(s, 2, lane);
        void *word = s->insn->op.space == PTX_SHARED
                         ? touch_shared(s, lane, at, sizeof before, PTX_ATOMIC)
                         : touch_global(s, lane, at, sizeof before, PTX_ATOMIC);
        if (!word)
            return false;
        memcpy(&before, word, sizeof before);
        uint32_t after = s->insn->op.kind == PTX_ATOMIC_ADD ? before + other
                         : other < before                   ? other
                                                            : before;
        memcpy(word, &after, sizeof after);
        put(s, 0, lane, before);
    }
    return true;
}

/* --- asynchronous copies ------------------------------------------------------------------ */

enum { COPY_BYTES = 16 };

static void add_copy(struct ptx_copies *copies, struct ptx_copy copy)
{
    if (copies->count == copies->capacity) {
        copies->capacity = 2 * copies->capacity + 8;
        copies->at = arena_grow(copies->at, sizeof *copies->at * (size_t)copies->capacity);
    }
    copies->at[copies->count++] = copy;
}

/* Operands of an asynchronous copy: [to], [from], 16, number of bytes that are read. */
static bool begin_copies(const struct step *s)
{
    if (s->insn->at[2].value != COPY_BYTES)
        return fail(s, "copies a number of bytes other than 16");
    EACH_LANE(lane, s->lanes)
    {
        struct ptx_copies *copies = &s->warp->copies[lane];
        uint64_t to = address(s, 0, lane), from = address(s, 1, lane), bytes = get(s, 3, lane);
        if (bytes > COPY_BYTES)
            return fail(s, "reads more than it copies");
        if (from % COPY_BYTES != 0)
            return fail(s, "copies 16 bytes from an address that is no multiple of 16");
        if ((bytes > 0 && !touch_global(s, lane, from, bytes, PTX_READ)) ||
            !touch_shared(s, lane, to, COPY_BYTES, PTX_COPY_BEGINS))
            return false;
        add_copy(copies, (struct ptx_copy){ to, from, bytes, copies->group });
    }
    return true;
}

static bool end_copy(const struct step *s, uint32_t lane, const struct ptx_copy *copy)
{
    char *to = touch_shared(s, lane, copy->to, COPY_BYTES, PTX_COPY_ENDS);
    const char *from =
        copy->bytes ? touch_global(s, lane, copy->from, copy->bytes, PTX_READ) : NULL;
    if (!to || (copy->bytes && !from))
        return false;
    memset(to, 0, COPY_BYTES);
    if (from)
        memcpy(to, from, copy->bytes);
    return true;
}

/* Waits for all groups of the thread except the given number of latest ones. */
static bool wait_for_copies(const struct step *s)
{
    EACH_LANE(lane, s->lanes)
    {
        struct ptx_copies *copies = &s->warp->copies[lane];
        int done = 0, last_group = copies->group - (int)s->insn->at[0].value;
        for (; done < copies->count && copies->at[done].group < last_group; done++)
            if (!end_copy(s, lane, &copies->at[done]))
                return false;
        copies->count -= done;
        if (copies->count > 0)
            memmove(copies->at, copies->at + done, sizeof *copies->at * (size_t)copies->count);
    }
    return true;
}

/* --- warp-wide instructions --------------------------------------------------------------- */

/* Operands d|p, a, b, c (section 9.7.9.6). Bits 0 to 4 of c are a clamp and bits 8 to 12 a mask of
 * segments.
 */
static bool shuffle(const struct step *s)
{
    uint32_t given[PTX_LANES], valid = 0;
    memcpy(given, words(s, 2), sizeof given);
    EACH_LANE(lane, s->lanes)
    {
        uint32_t b = words(s, 3)[lane] & 31, c = words(s, 4)[lane];
        uint32_t segments = c >> 8 & 31, clamp = c & 31;
        uint32_t first = lane & segments, last = first | (clamp & ~segments);
        uint32_t from = s->insn->op.kind == PTX_SHUFFLE_XOR ? lane ^ b : first | (b & ~segments);
        bool is_valid = from <= last;
        from = is_valid ? from : lane;
        if (!(s->lanes >> from & 1))
            return fail(s, "reads the value of a lane that does not participate");
        words(s, 0)[lane] = given[from];
        valid |= (uint32_t)is_valid << lane;
    }
    *words(s, 1) = (*words(s, 1) & ~s->lanes) | valid;
    return true;
}

static bool ballot(const struct step *s)
{
    uint32_t votes = *words(s, 1) & s->lanes;
    EACH_LANE(lane, s->lanes)
    words(s, 0)[lane] = votes;
    return true;
}

/* Lane 8 i + r points at row r of matrix i. */
static bool load_matrices(const struct step *s, bool is_transposed)
{
    uint16_t matrices[4][8][8];
    EACH_LANE(lane, s->lanes)
    {
        const void *row =
            touch_shared(s, lane, address(s, 4, lane), sizeof matrices[0][0], PTX_READ);
        if (!row)
            return false;
        memcpy(matrices[lane / 8][lane % 8], row, sizeof matrices[0][0]);
    }
    for (int i = 0; i < 4; i++)
        EACH_LANE(lane, s->lanes)
        {
            struct ptx_place low = ptx_place_of_loaded((int)lane, 0, is_transposed);
            struct ptx_place high = ptx_place_of_loaded((int)lane, 1, is_transposed);
            words(s, i)[lane] = (uint32_t)matrices[i][low.row][low.column] |
                                (uint32_t)matrices[i][high.row][high.column] << 16;
        }
    return true;
}

typedef void unpack(long n, const uint16_t *x, float *out);

/* Value i of the 16-bit values of a lane. Operand `first` holds the values 0 and 1, the next one 2
 * and 3, and so on. */
static float value_of(const struct step *s, int first, uint32_t lane, int i, unpack *unpacked)
{
    uint16_t bits = (uint16_t)(words(s, first + i / 2)[lane] >> i % 2 * 16);
    float value;
    unpacked(1, &bits, &value);
    return value;
}

/* A matrix product d = a b + c. Operands 0 to 3 are d, 4 to 7 a, 8 and 9 b, 10 to 13 c. */
static bool multiply(const struct step *s, unpack *unpacked)
{
    float a[PTX_M][PTX_K], b[PTX_N][PTX_K];
    EACH_LANE(lane, s->lanes)
    {
        for (int i = 0; i < 8; i++) {
            struct ptx_place at = ptx_place_of_a((int)lane, i);
            a[at.row][at.column] = value_of(s, 4, lane, i, unpacked);
        }
        for (int i = 0; i < 4; i++) {
            struct ptx_place at = ptx_place_of_b((int)lane, i);
            b[at.column][at.row] = value_of(s, 8, lane, i, unpacked);
        }
    }
    EACH_LANE(lane, s->lanes)
    for (int i = 0; i < 4; i++) {
        struct ptx_place at = ptx_place_of_sum((int)lane, i);
        float sum;
        memcpy(&sum, &words(s, 10 + i)[lane], sizeof sum);
        sum = ptx_dot(s->block->machine->numerics, sum, a[at.row], b[at.column]);
        memcpy(&words(s, i)[lane], &sum, sizeof sum);
    }
    return true;
}

/* --- control ------------------------------------------------------------------------------ */

/* Index of the operand that names the lanes which execute an instruction together; or one of these
 * values. */
enum { NOT_TOGETHER = -2, ALL_OF_THEM = -1 };
static int mask_operand(enum ptx_kind kind)
{
    switch (kind) {
    case PTX_WARP_BARRIER:
        return 0;
    case PTX_SHUFFLE_XOR:
    case PTX_SHUFFLE_INDEX:
        return 5;
    case PTX_BALLOT:
        return 2;
    case PTX_BARRIER:
    case PTX_LOAD_MATRICES:
    case PTX_LOAD_MATRICES_TRANSPOSED:
    case PTX_MULTIPLY_BF16:
    case PTX_MULTIPLY_FP16:
        return ALL_OF_THEM;
    case PTX_EACH_LANE:
    case PTX_LOAD:
    case PTX_STORE:
    case PTX_ATOMIC_ADD:
    case PTX_ATOMIC_MIN:
    case PTX_COPY_ASYNC:
    case PTX_COPY_COMMIT:
    case PTX_COPY_WAIT:
    case PTX_BRANCH:
    case PTX_RETURN:
        break;
    }
    return NOT_TOGETHER;
}

/* Whether all lanes that execute an instruction together have reached it: all lanes of the warp, or
 * those that the instruction names.
 */
static bool are_together(const struct ptx_warp *warp, const struct ptx_insn *insn, uint32_t lanes)
{
    int operand = mask_operand(insn->op.kind);
    if (operand == NOT_TOGETHER)
        return true;
    uint32_t needed = warp->alive;
    if (operand >= 0) {
        const char *slot = warp->registers + insn->at[operand].slot;
        needed &= ((const uint32_t *)(const void *)slot)[__builtin_ctz(lanes)];
    }
    return lanes == needed;
}

/* Picks the lanes with the smallest program counter, leaving out instructions at which lanes must
 * wait for others. */
static uint32_t next_group(const struct ptx_warp *warp, const struct ptx_insn *insns)
{
    for (int after = -1;;) {
        int pc = -1;
        uint32_t lanes = 0;
        EACH_LANE(lane, warp->alive)
        if (warp->pc[lane] > after && (pc < 0 || warp->pc[lane] < pc))
            pc = warp->pc[lane];
        if (pc < 0)
            return 0;
        EACH_LANE(lane, warp->alive)
        lanes |= (uint32_t)(warp->pc[lane] == pc) << lane;
        if (are_together(warp, &insns[pc], lanes))
            return lanes;
        after = pc;
    }
}

static void move_to(struct ptx_warp *warp, uint32_t lanes, int pc)
{
    EACH_LANE(lane, lanes)
    warp->pc[lane] = pc;
}

/* The first instruction after `pc` at which other lanes wait. */
static int next_meeting(const struct ptx_warp *warp, uint32_t lanes, int pc)
{
    int next = INT32_MAX;
    EACH_LANE(lane, warp->alive & ~lanes)
    if (warp->pc[lane] > pc && warp->pc[lane] < next)
        next = warp->pc[lane];
    return next;
}

static bool end_threads(const struct step *s)
{
    EACH_LANE(lane, s->lanes)
    if (s->warp->copies[lane].count > 0)
        return fail(s, "ends while the thread's asynchronous copies are under way");
    s->warp->alive &= ~s->lanes;
    return true;
}

static bool run_step(const struct step *s)
{
    switch (s->insn->op.kind) {
    case PTX_EACH_LANE:
        s->insn->op.run(s->insn, s->warp->registers, s->lanes);
        return true;
    case PTX_LOAD:
        return load(s);
    case PTX_STORE:
        return store(s);
    case PTX_ATOMIC_ADD:
    case PTX_ATOMIC_MIN:
        return update(s);
    case PTX_COPY_ASYNC:
        return begin_copies(s);
    case PTX_COPY_COMMIT:
        EACH_LANE(lane, s->lanes)
        s->warp->copies[lane].group++;
        return true;
    case PTX_COPY_WAIT:
        return wait_for_copies(s);
    case PTX_LOAD_MATRICES:
        return load_matrices(s, false);
    case PTX_LOAD_MATRICES_TRANSPOSED:
        return load_matrices(s, true);
    case PTX_MULTIPLY_BF16:
        return multiply(s, bf16_unpack);
    case PTX_MULTIPLY_FP16:
        return multiply(s, fp16_unpack);
    case PTX_SHUFFLE_XOR:
    case PTX_SHUFFLE_INDEX:
        return shuffle(s);
    case PTX_BALLOT:
        return ballot(s);
    case PTX_WARP_BARRIER:
        s->warp->epoch++;
        return s->warp->epoch < UINT16_MAX ||
               fail(s, "a warp has passed more barriers than the counter holds");
    case PTX_RETURN:
        return end_threads(s);
    case PTX_BARRIER:
    case PTX_BRANCH:
        break;
    }
    return true;
}

/* Whether an instruction needs all 32 lanes, not only those that have not returned. */
static bool needs_whole_warp(enum ptx_kind kind)
{
    return kind == PTX_LOAD_MATRICES || kind == PTX_LOAD_MATRICES_TRANSPOSED ||
           kind == PTX_MULTIPLY_BF16 || kind == PTX_MULTIPLY_FP16;
}

static bool may_run(const struct step *s, uint32_t group)
{
    bool is_together = mask_operand(s->insn->op.kind) != NOT_TOGETHER;
    if (is_together && s->lanes != group)
        return fail(s, "some lanes of a warp skip an instruction that all must execute together");
    if (needs_whole_warp(s->insn->op.kind) && group != ~0u)
        return fail(s, "needs all lanes of a warp, of which some have returned");
    return true;
}

static enum ptx_stop stop_at(const struct step *s, enum ptx_stop stop)
{
    char where[160];
    if (stop != PTX_FAILED)
        return stop;
    const struct ptx_kernel *kernel = s->block->launch->kernel;
    snprintf(where, sizeof where, "%s:%d: %s: ", kernel->file, s->insn->line, s->insn->op.name);
    err_prefix(s->block->err, where);
    return PTX_FAILED;
}

static enum ptx_stop wait_for_ever(struct ptx_block *block, const struct ptx_warp *warp)
{
    int pc = warp->pc[__builtin_ctz(warp->alive)];
    struct step s = { block, NULL, &block->launch->kernel->insns[pc], 0 };
    fail(&s, "lanes of a warp wait for each other at different places");
    return stop_at(&s, PTX_FAILED);
}

/* Runs lanes at the same instruction until they diverge or meet other lanes. */
static enum ptx_stop run_group(struct ptx_block *block, struct ptx_warp *warp, uint32_t group,
                               int *steps)
{
    const struct ptx_kernel *kernel = block->launch->kernel;
    int pc = warp->pc[__builtin_ctz(group)], meeting = next_meeting(warp, group, pc);
    do {
        struct step s = { block, warp, &kernel->insns[pc], group };
        if (pc >= kernel->num_insns)
            return wait_for_ever(block, warp);
        if (s.insn->guard >= 0) {
            uint32_t guard = *(uint32_t *)(void *)(warp->registers + s.insn->guard);
            s.lanes &= s.insn->guard_is_negated ? ~guard : guard;
        }
        if (!are_together(warp, s.insn, group))
            break;
        if (!may_run(&s, group))
            return stop_at(&s, PTX_FAILED);
        kernel->is_executed[pc] = 1;
        if (s.lanes && !run_step(&s))
            return stop_at(&s, PTX_FAILED);
        --*steps;
        block->machine->num_instructions++;
        if (s.insn->op.kind == PTX_BARRIER || s.insn->op.kind == PTX_RETURN) {
            move_to(warp, group, pc + 1);
            return s.insn->op.kind == PTX_BARRIER ? PTX_AT_BARRIER : PTX_STEPS_ARE_OVER;
        }
        if (s.insn->op.kind == PTX_BRANCH && s.lanes) {
            move_to(warp, group & ~s.lanes, pc + 1);
            move_to(warp, s.lanes, (int)s.insn->at[0].value);
            return PTX_STEPS_ARE_OVER;
        }
        pc++;
    } while (*steps > 0 && pc != meeting);
    move_to(warp, group, pc);
    return PTX_STEPS_ARE_OVER;
}

enum ptx_stop ptx_run_warp(struct ptx_block *block, struct ptx_warp *warp, int steps)
{
    while (steps > 0) {
        uint32_t group = next_group(warp, block->launch->kernel->insns);
        if (warp->alive == 0)
            return PTX_ENDED;
        if (group == 0)
            return wait_for_ever(block, warp);
        enum ptx_stop stop = run_group(block, warp, group, &steps);
        if (stop != PTX_STEPS_ARE_OVER)
            return stop;
    }
    return warp->alive ? PTX_STEPS_ARE_OVER : PTX_ENDED;
}
