#include "tests/kernels/ptx/ptx_library.h"

#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names -------------------------------------------------------------------------------- */

/* Replaces the number that nvcc puts in the name of an anonymous namespace by _GLOBAL__N_1, as host
 * compilers write it. */
static char *plain_name(struct arena *arena, const char *name)
{
    static const char space[] = "_GLOBAL__N_";
    char *out = arena_alloc(arena, strlen(name) + sizeof "12_GLOBAL__N_1"), *to = out;
    for (const char *next; (next = strstr(name, space));) {
        const char *digits = next;
        while (digits > name && isdigit((unsigned char)digits[-1]))
            digits--;
        size_t length = (size_t)atoi(digits);
        memcpy(to, name, (size_t)(digits - name));
        to += digits - name;
        to += sprintf(to, "12_GLOBAL__N_1");
        name = length <= strlen(next) ? next + length : next + strlen(next);
    }
    memcpy(to, name, strlen(name) + 1);
    return out;
}

struct ptx_kernel *ptx_library_find(struct ptx_library *library, const char *name, struct err *err)
{
    const char *plain = plain_name(&library->arena, name);
    struct ptx_kernel *found = NULL;
    for (struct ptx_kernel *k = library->kernels; k; k = k->next) {
        if (strcmp(k->name, plain) != 0)
            continue;
        if (found && strstr(plain, "_GLOBAL__N_")) {
            err_set(err, ERR_INPUT, name, "is a kernel of %s and of %s", found->file, k->file);
            return NULL;
        }
        found = k;
    }
    if (!found)
        err_set(err, ERR_INPUT, name, "no such kernel in the PTX");
    return found && ptx_decode(&library->arena, found, err) ? found : NULL;
}

/* --- files -------------------------------------------------------------------------------- */

static bool add_file(struct ptx_library *library, const char *folder, const char *name,
                     struct err *err)
{
    enum { MOST_BYTES = 64 << 20 };
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = file_read(path, MOST_BYTES, NULL, err);
    if (!text)
        return false;
    const char *kept = arena_text(&library->arena, text);
    free(text);
    struct ptx_kernel *first = ptx_parse(&library->arena, name, kept, err);
    for (struct ptx_kernel *k = first, *next; k; k = next) {
        next = k->next;
        k->name = plain_name(&library->arena, k->name);
        k->next = library->kernels;
        library->kernels = k;
    }
    return first != NULL;
}

/* --- functions of this program ------------------------------------------------------------ */

static const Elf64_Shdr *section(const struct ptx_library *library, unsigned index)
{
    const Elf64_Ehdr *header = (const void *)library->program;
    const Elf64_Shdr *sections = (const void *)(library->program + header->e_shoff);
    return &sections[index];
}

/* The program's symbol table of functions, or NULL. */
static const Elf64_Shdr *table_of(const struct ptx_library *library)
{
    const Elf64_Ehdr *header = (const void *)library->program;
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (section(library, i)->sh_type == SHT_SYMTAB)
            return section(library, i);
    return NULL;
}

struct symbols {
    const Elf64_Sym *at;
    size_t count;
    const char *names;
};

static struct symbols symbols_of(const struct ptx_library *library)
{
    const Elf64_Shdr *table = table_of(library);
    return (struct symbols){ (const void *)(library->program + table->sh_offset),
                             table->sh_size / sizeof(Elf64_Sym),
                             library->program + section(library, table->sh_link)->sh_offset };
}

/* The difference between addresses of the loaded program and addresses in its file. */
static uintptr_t moved_by(const struct symbols *symbols)
{
    bool (*known)(struct ptx_library *, const char *, struct err *) = ptx_library_open;
    uintptr_t at;
    memcpy(&at, &known, sizeof at);
    for (size_t i = 0; i < symbols->count; i++)
        if (strcmp(symbols->names + symbols->at[i].st_name, "ptx_library_open") == 0)
            return at - symbols->at[i].st_value;
    return 0;
}

static bool read_program(struct ptx_library *library, struct err *err)
{
    enum { MOST_BYTES = 1 << 30 };
    size_t length;
    char *bytes = file_read("/proc/self/exe", MOST_BYTES, &length, err);
    if (!bytes)
        return false;
    library->program = arena_alloc(&library->arena, length);
    memcpy(library->program, bytes, length);
    free(bytes);
    if (!table_of(library))
        return err_set(err, ERR_UNAVAILABLE, "",
                       "this program has no symbol table (was it stripped?)");
    struct symbols symbols = symbols_of(library);
    library->moved_by = moved_by(&symbols);
    return true;
}

const char *ptx_name_of_function(const struct ptx_library *library, const void *function)
{
    struct symbols symbols = symbols_of(library);
    uintptr_t at = (uintptr_t)function - library->moved_by;
    for (size_t i = 0; i < symbols.count; i++)
        if (symbols.at[i].st_value == at && ELF64_ST_TYPE(symbols.at[i].st_info) == STT_FUNC)
            return symbols.names + symbols.at[i].st_name;
    return NULL;
}

/* --- all parts ---------------------------------------------------------------------------- */

bool ptx_library_open(struct ptx_library *library, const char *folder, struct err *err)
{
    *library = (struct ptx_library){ 0 };
    if (!read_program(library, err))
        return false;
    DIR *files = opendir(folder);
    bool ok = files != NULL;
    if (!files)
        return err_set(err, ERR_UNAVAILABLE, folder, "no such folder");
    for (const struct dirent *file; ok && (file = readdir(files));)
        if (text_ends_in(file->d_name, ".ptx"))
            ok = add_file(library, folder, file->d_name, err);
    closedir(files);
    if (ok && !library->kernels)
        return err_set(err, ERR_UNAVAILABLE, folder, "holds no PTX");
    return ok;
}

void ptx_library_close(struct ptx_library *library)
{
    arena_release(&library->arena);
}
