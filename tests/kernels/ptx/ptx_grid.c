#include "tests/kernels/ptx/ptx_grid.h"

#include "tests/kernels/ptx/ptx_warp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WARPS = PTX_BLOCK_THREADS / PTX_LANES };

struct turn {
    struct ptx_block block;
    struct ptx_warp *warps;
    bool is_waiting[MOST_WARPS], has_ended[MOST_WARPS];
    int num_warps;
};

/* --- initial register values -------------------------------------------------------------- */

static void fill(char *slot, int bits, uint64_t value)
{
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (bits == 64)
            ((uint64_t *)(void *)slot)[lane] = value;
        else if (bits == 32)
            ((uint32_t *)(void *)slot)[lane] = (uint32_t)value;
        else if (bits == 16)
            ((uint16_t *)(void *)slot)[lane] = (uint16_t)value;
    if (bits == 1)
        *(uint32_t *)(void *)slot = value ? ~0u : 0;
}

static void set_special(char *registers, int special, const unsigned value[3])
{
    for (int i = 0; i < 3; i++)
        fill(registers + PTX_SPECIAL_SLOT(special + i), 32, value[i]);
}

/* Sets the registers that hold constants. All others get random values, in case a kernel reads them
 * before it writes them. */
static void set_constants(const struct ptx_launch *launch, char *registers)
{
    const struct ptx_kernel *k = launch->kernel;
    memset(registers, 0xa5, k->register_bytes);
    for (int i = 0; i < k->num_constants; i++)
        fill(registers + k->constants[i].slot, k->constants[i].bits, k->constants[i].value);
    set_special(registers, PTX_NTID, launch->threads);
    set_special(registers, PTX_NCTAID, launch->blocks);
}

static void set_threads(const unsigned threads[3], unsigned first, char *registers)
{
    for (unsigned lane = 0; lane < PTX_LANES; lane++) {
        unsigned at = first + lane;
        unsigned index[3] = { at % threads[0], at / threads[0] % threads[1],
                              at / threads[0] / threads[1] };
        for (int i = 0; i < 3; i++)
            ((uint32_t *)(void *)(registers + PTX_SPECIAL_SLOT(PTX_TID + i)))[lane] = index[i];
    }
}

/* --- blocks ------------------------------------------------------------------------------- */

static void begin_block(struct turn *turn, const char *constants, unsigned number)
{
    const struct ptx_launch *launch = turn->block.launch;
    const unsigned *n = launch->blocks, *threads = launch->threads;
    unsigned index[3] = { number % n[0], number / n[0] % n[1], number / n[0] / n[1] };
    unsigned count = threads[0] * threads[1] * threads[2];
    turn->block.epoch = 0;
    for (int i = 0; i < turn->num_warps; i++) {
        struct ptx_warp *warp = &turn->warps[i];
        unsigned first = (unsigned)i * PTX_LANES, left = count - first;
        memcpy(warp->registers, constants, launch->kernel->register_bytes);
        set_special(warp->registers, PTX_CTAID, index);
        set_threads(threads, first, warp->registers);
        memset(warp->pc, 0, sizeof warp->pc);
        warp->alive = left >= PTX_LANES ? ~0u : (1u << left) - 1;
        warp->epoch = 0;
        warp->first_thread = number * PTX_BLOCK_THREADS + first;
        for (int lane = 0; lane < PTX_LANES; lane++)
            warp->copies[lane].count = warp->copies[lane].group = 0;
        turn->is_waiting[i] = turn->has_ended[i] = false;
    }
}

/* Opens a barrier when all living warps have reached it. */
static bool pass_barrier(struct turn *turn)
{
    memset(turn->is_waiting, 0, sizeof turn->is_waiting);
    turn->block.epoch++;
    return turn->block.epoch < UINT16_MAX ||
           err_set(turn->block.err, ERR_INPUT, "",
                   "a block has passed more barriers than the counter holds");
}

/* A warp that can run, or -1. */
static int draw_warp(struct turn *turn, struct random *random)
{
    int drawn = random_below(random, turn->num_warps);
    for (int i = 0; i < turn->num_warps; i++) {
        int at = (drawn + i) % turn->num_warps;
        if (!turn->is_waiting[at] && !turn->has_ended[at])
            return at;
    }
    return -1;
}

static bool run_block(struct turn *turn)
{
    enum { MOST_DOUBLINGS = 14 };
    struct random *random = &turn->block.machine->random;
    int num_ended = 0;
    while (num_ended < turn->num_warps) {
        int at = draw_warp(turn, random);
        if (at < 0) {
            if (!pass_barrier(turn))
                return false;
            continue;
        }
        switch (ptx_run_warp(&turn->block, &turn->warps[at],
                             1 << random_below(random, MOST_DOUBLINGS))) {
        case PTX_STEPS_ARE_OVER:
            break;
        case PTX_AT_BARRIER:
            turn->is_waiting[at] = true;
            break;
        case PTX_ENDED:
            turn->has_ended[at] = true;
            num_ended++;
            break;
        case PTX_FAILED:
            return false;
        }
    }
    return true;
}

static bool run_blocks(struct turn *turn, const char *constants)
{
    const struct ptx_launch *launch = turn->block.launch;
    unsigned count = launch->blocks[0] * launch->blocks[1] * launch->blocks[2];
    for (unsigned number = 0; number < count; number++) {
        if (!ptx_memory_begin_block(&turn->block.machine->memory, launch->shared_bytes))
            return err_set(turn->block.err, ERR_INPUT, "",
                           "%zu bytes of shared memory are more "
                           "than a block can have",
                           launch->shared_bytes);
        begin_block(turn, constants, number);
        if (!run_block(turn))
            return false;
    }
    return true;
}

/* --- launches ----------------------------------------------------------------------------- */

static unsigned char *new_params(const struct ptx_launch *launch)
{
    const struct ptx_kernel *k = launch->kernel;
    unsigned char *params = arena_grow(NULL, k->param_bytes + 1);
    memset(params, 0xa5, k->param_bytes);
    for (int i = 0; i < k->num_params; i++)
        memcpy(params + k->params[i].offset, launch->arguments[i], k->params[i].bytes);
    return params;
}

static struct ptx_warp *new_warps(const struct ptx_kernel *kernel, int count)
{
    struct ptx_warp *warps = arena_grow(NULL, sizeof *warps * (size_t)count);
    memset(warps, 0, sizeof *warps * (size_t)count);
    for (int i = 0; i < count; i++)
        warps[i].registers = arena_grow(NULL, kernel->register_bytes);
    return warps;
}

static void free_warps(struct ptx_warp *warps, int count)
{
    for (int i = 0; i < count; i++) {
        for (int lane = 0; lane < PTX_LANES; lane++)
            free(warps[i].copies[lane].at);
        free(warps[i].registers);
    }
    free(warps);
}

static bool has_allowed_shape(const struct ptx_launch *launch, struct err *err)
{
    const unsigned *threads = launch->threads;
    unsigned count = threads[0] * threads[1] * threads[2];
    unsigned most = launch->kernel->most_threads ? (unsigned)launch->kernel->most_threads
                                                 : (unsigned)PTX_BLOCK_THREADS;
    if (count == 0 || count > most)
        return err_set(err, ERR_INPUT, launch->kernel->name,
                       "a block has %u threads, but at most %u are allowed", count, most);
    if (launch->blocks[1] > 65535 || launch->blocks[2] > 65535)
        return err_set(err, ERR_INPUT, launch->kernel->name,
                       "more than 65,535 blocks along y or z");
    return true;
}

bool ptx_run(struct ptx_machine *machine, const struct ptx_launch *launch, struct err *err)
{
    if (!has_allowed_shape(launch, err))
        return false;
    unsigned count = launch->threads[0] * launch->threads[1] * launch->threads[2];
    struct turn turn = { .block = { .machine = machine, .launch = launch, .err = err } };
    unsigned char *params = new_params(launch);
    char *constants = arena_grow(NULL, launch->kernel->register_bytes);
    set_constants(launch, constants);
    turn.block.params = params;
    turn.num_warps = (int)((count + PTX_LANES - 1) / PTX_LANES);
    turn.warps = new_warps(launch->kernel, turn.num_warps);
    ptx_memory_begin_launch(&machine->memory);
    bool ok = run_blocks(&turn, constants);
    free_warps(turn.warps, turn.num_warps);
    free(constants);
    free(params);
    return ok;
}
