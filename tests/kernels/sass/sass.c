#include "tests/kernels/sass/sass.h"

#include "base/file.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- instructions ------------------------------------------------------------------------- */

enum { WARP = 32, INSN_BYTES = 16 };

struct insn {
    uint64_t low, high;
};

/* Opcodes, in the lowest bits. The bits above encode the operands. */
enum opcode {
    OP_LDSM = 0x03b,
    OP_HMMA = 0x03c,
    OP_BRA = 0x147,
    OP_LDG = 0x181,
    OP_LDS = 0x184,
    OP_STG = 0x186,
    OP_STS = 0x188,
    OP_LDGSTS = 0x1ae
};

static enum opcode opcode_of(const struct insn *insn)
{
    return insn->low & 0x1ff;
}

/* Bytes that each lane loads or stores. */
static long access_bytes(const struct insn *insn)
{
    static const long bytes[8] = { 1, 1, 2, 2, 4, 8, 16, 16 };
    return bytes[insn->high >> 9 & 7];
}

/* Each matrix that ldmatrix loads has 8 rows of 16 bytes. */
static long matrices_bytes(const struct insn *insn)
{
    return (1L << (insn->high >> 8 & 3)) * 8 * 16;
}

/* Returns the index of the instruction that the branch at `i` jumps to. The branch contains the
 * distance from the next instruction, as a signed number in units of 4 bytes, in two bit fields. */
static long branch_target(const struct insn *insn, long i)
{
    uint64_t upper = insn->low >> 34 | (insn->high & 0x3ffff) << 30; /* 48 bits */
    int64_t distance = (int64_t)(upper << 16) >> 8;
    distance |= (int64_t)(insn->low >> 16 & 0xff);
    return i + 1 + distance * 4 / INSN_BYTES;
}

static void add_insn(struct sass_work *work, const struct insn *insn)
{
    long bytes = WARP * access_bytes(insn);
    work->code_bytes += INSN_BYTES;
    switch (opcode_of(insn)) {
    case OP_HMMA:
        work->num_products++;
        break;
    case OP_LDSM:
        work->shared_bytes += matrices_bytes(insn);
        break;
    case OP_LDS:
    case OP_STS:
        work->shared_bytes += bytes;
        break;
    case OP_LDG:
    case OP_STG:
        work->global_bytes += bytes;
        break;
    case OP_LDGSTS:
        work->num_copies++;
        work->shared_bytes += bytes;
        work->global_bytes += bytes;
        break;
    case OP_BRA:
        break;
    }
}

static struct sass_work work_of(const struct insn *insns, long first, long end)
{
    struct sass_work work = { 0 };
    for (long i = first; i < end; i++)
        add_insn(&work, &insns[i]);
    return work;
}

/* Whether a is a better candidate than b for the main loop. Not every backward branch is a loop:
 * ptxas puts rare code after the kernel's end, and branches from there also go backwards. The main
 * loop is the shortest of the candidates with the most work. */
static bool is_better(const struct sass_work *a, const struct sass_work *b)
{
    if (a->num_products != b->num_products)
        return a->num_products > b->num_products;
    if (a->num_products == 0 && a->global_bytes != b->global_bytes)
        return a->global_bytes > b->global_bytes;
    return a->code_bytes < b->code_bytes;
}

static bool is_back(const struct insn *insn, long i)
{
    return opcode_of(insn) == OP_BRA && branch_target(insn, i) <= i;
}

/* Whether no other loop begins and ends in [first, end). */
static bool is_innermost(const struct insn *insns, long first, long end)
{
    for (long i = first; i < end; i++)
        if (is_back(&insns[i], i) && branch_target(&insns[i], i) >= first)
            return false;
    return true;
}

/* Finds the main loop. Every kernel is followed by a branch to itself, which is not a loop. */
static struct sass_work best_loop(const struct insn *insns, long count)
{
    struct sass_work best = { 0 };
    for (long i = 0; i < count; i++) {
        if (!is_back(&insns[i], i) || branch_target(&insns[i], i) == i)
            continue;
        long first = branch_target(&insns[i], i);
        struct sass_work loop = work_of(insns, first, i + 1);
        if (loop.num_products == 0 && !is_innermost(insns, first, i))
            continue;
        if (best.code_bytes == 0 || is_better(&loop, &best))
            best = loop;
    }
    return best;
}

/* --- ptxas -------------------------------------------------------------------------------- */

enum { MOST_COMMAND = 4096, MOST_OUTPUT = 1 << 16 };

/* Runs a command and returns its output; false unless it exits with 0. */
static bool run_command(const char *command, char output[MOST_OUTPUT])
{
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): all paths are made by the test
    if (!pipe)
        return false;
    size_t length = fread(output, 1, MOST_OUTPUT - 1, pipe);
    output[length] = '\0';
    return pclose(pipe) == 0;
}

bool sass_version(char version[32])
{
    char output[MOST_OUTPUT];
    const char *at =
        run_command("ptxas --version 2>/dev/null", output) ? strstr(output, ", V") : NULL;
    return at && sscanf(at, ", V%31s", version) == 1;
}

/* The number before the word `what`; 0 if the word is missing. */
static int number_before(const char *report, const char *what)
{
    const char *at = strstr(report, what);
    while (at && at > report && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at ? atoi(at) : 0;
}

static void read_report(const char *report, struct sass_kernel *out)
{
    out->registers = number_before(report, " registers");
    out->spill_bytes =
        number_before(report, " bytes spill stores") + number_before(report, " bytes spill loads");
    out->stack_bytes = number_before(report, " bytes stack frame");
    out->shared_bytes = number_before(report, " bytes smem");
}

/* The code of the only kernel in an object of ptxas. */
static const Elf64_Shdr *code_of(const char *bytes, size_t length)
{
    const Elf64_Ehdr *header = (const void *)bytes;
    if (length < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    const Elf64_Shdr *sections = (const void *)(bytes + header->e_shoff);
    const char *names = bytes + sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < header->e_shnum; i++)
        if (strncmp(names + sections[i].sh_name, ".text.", strlen(".text.")) == 0)
            return &sections[i];
    return NULL;
}

static bool read_code(const char *path, struct sass_kernel *out, struct err *err)
{
    size_t length;
    char *bytes = file_read(path, FILE_MAX_BYTES, &length, err);
    const Elf64_Shdr *code = bytes ? code_of(bytes, length) : NULL;
    if (code) {
        const struct insn *insns = (const void *)(bytes + code->sh_offset);
        long count = (long)(code->sh_size / INSN_BYTES);
        out->all = work_of(insns, 0, count);
        out->loop = best_loop(insns, count);
    } else if (bytes)
        err_set(err, ERR_INPUT, path, "holds no code");
    free(bytes);
    return code != NULL;
}

bool sass_assemble(struct arena *arena, const char *ptx_path, const char *name,
                   struct sass_kernel *out, struct err *err)
{
    char path[] = "/tmp/simsearch-sass-XXXXXX", command[MOST_COMMAND];
    char *report = arena_alloc(arena, MOST_OUTPUT);
    int file = mkstemp(path);
    if (file < 0)
        return err_set(err, ERR_SYSTEM, path, "no file for ptxas");
    close(file);
    snprintf(command, sizeof command, "ptxas -arch=sm_90a -v --entry '%s' -o '%s' '%s' 2>&1", name,
             path, ptx_path);
    *out = (struct sass_kernel){ 0 };
    bool ok = run_command(command, report) ||
              err_set(err, ERR_INPUT, ptx_path, "ptxas refuses %s: %s", name, report);
    if (ok)
        read_report(report, out);
    ok = ok && read_code(path, out, err);
    unlink(path);
    return ok;
}

/* --- occupancy ---------------------------------------------------------------------------- */

/* CUDA C++ Programming Guide 13.0, "Compute Capabilities", table 30: 9.0 has 64 Ki registers and
 * 228 KiB of shared memory, 1 KiB of which each block gives to the system, for at most 64 warps and
 * 32 blocks. A warp gets registers in units of 256, from the registers of its quarter of the
 * multiprocessor. */
int sass_resident_blocks(int registers, int threads, long shared_bytes)
{
    enum { QUARTERS = 4, REGISTERS = 16384, RUN = 256, MOST_WARPS = 64, MOST_BLOCKS = 32 };
    const long shared_of_all = 228 << 10, shared_of_system = 1 << 10;
    int warps = (threads + WARP - 1) / WARP, of_warp = (registers * WARP + RUN - 1) / RUN * RUN;
    int by_registers = of_warp > 0 ? QUARTERS * (REGISTERS / of_warp) / warps : MOST_BLOCKS;
    int by_shared = (int)(shared_of_all / (shared_bytes + shared_of_system));
    int blocks = MOST_WARPS / warps < MOST_BLOCKS ? MOST_WARPS / warps : MOST_BLOCKS;
    blocks = by_registers < blocks ? by_registers : blocks;
    return by_shared < blocks ? by_shared : blocks;
}
