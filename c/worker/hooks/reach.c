/* Checks whether the calls of libraries reach the replacements of libc functions.
 *
 * Usually the dynamic linker takes care of that. However, a library may contain a function with such a name itself, or
 * may have been linked so that it prefers that of libc. This reads the addresses that the linker has written into each
 * known library for a name. A name that is resolved at its first call points into the library itself until then, and
 * will be resolved in the usual order. */
#include "compat.h"
#include "worker/hooks/callers.h"
#include "worker/hooks/reach.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char *const names[] = {
#define SHIM_LIBC_NAME(name) #name,
#include "php/libc/libc_names.h"
#undef SHIM_LIBC_NAME
};

/* The search parameter: the library with this index among those out of reach. */
typedef struct search {
    size_t index;
    const char *path;
} search;

/* The parts of a library that the dynamic linker uses. */
typedef struct linking {
    uintptr_t base;
    const ElfW(Sym) *symbols;
    const char *strings;
    const ElfW(Rela) *calls;
    size_t calls_size;
    const ElfW(Rela) *others;
    size_t others_size;
} linking;

static bool is_ours(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the function belongs to the engine, libcurl or libpq: these are defined a second time, unlike those of libc. */
static bool is_engine(const char *name)
{
    return strncmp(name, "zend_", 5) == 0 || strncmp(name, "ts_", 3) == 0 || strncmp(name, "tsrm_", 5) == 0 ||
           strncmp(name, "_php_", 5) == 0 || strncmp(name, "virtual_", 8) == 0 || strncmp(name, "curl_", 5) == 0 ||
           strncmp(name, "mysqlnd_", 8) == 0 || strncmp(name, "PQ", 2) == 0;
}

static const void *file_of(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

static bool leads_astray(const linking *library, const ElfW(Rela) *entry)
{
    const ElfW(Sym) *symbol = &library->symbols[ELF64_R_SYM(entry->r_info)];
    if (ELF64_R_SYM(entry->r_info) == 0 || !is_ours(library->strings + symbol->st_name)) {
        return false;
    }
    const void *target = *(void *const *)(library->base + entry->r_offset);
    const void *file = target != NULL ? file_of(target) : NULL;
    return file != NULL && file != (const void *)library->base && file != file_of((const void *)is_ours);
}

/* Whether the library defines such a function itself: its calls may then bypass the linker. */
static bool has_its_own(const struct dl_phdr_info *info)
{
    void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    bool has = false;
    for (size_t i = 0; library != NULL && !has && i < sizeof(names) / sizeof(names[0]); i++) {
        const void *function = dlsym(library, names[i]);
        has = !is_engine(names[i]) && function != NULL && file_of(function) == (const void *)info->dlpi_addr;
    }
    if (library != NULL) {
        dlclose(library);
    }
    return has;
}

static bool any_leads_astray(const linking *library, const ElfW(Rela) *entries, size_t size)
{
    for (size_t i = 0; i < size / sizeof(*entries); i++) {
        if (leads_astray(library, &entries[i])) {
            return true;
        }
    }
    return false;
}

static bool read_linking(const struct dl_phdr_info *info, linking *library)
{
    const ElfW(Dyn) *entry = NULL;
    *library = (linking){.base = info->dlpi_addr};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    /* The linker has turned the offsets in the file into addresses. */
    for (; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            library->symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
            break;
        case DT_STRTAB:
            library->strings = (const char *)entry->d_un.d_ptr;
            break;
        case DT_JMPREL:
            library->calls = (const ElfW(Rela) *)entry->d_un.d_ptr;
            break;
        case DT_PLTRELSZ:
            library->calls_size = entry->d_un.d_val;
            break;
        case DT_RELA:
            library->others = (const ElfW(Rela) *)entry->d_un.d_ptr;
            break;
        case DT_RELASZ:
            library->others_size = entry->d_un.d_val;
            break;
        }
    }
    return library->symbols != NULL && library->strings != NULL;
}

static int look(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    search *wanted = argument;
    linking library;
    if (!shim_library_is_known(info->dlpi_name) || !read_linking(info, &library) ||
        (!has_its_own(info) && !any_leads_astray(&library, library.calls, library.calls_size) &&
         !any_leads_astray(&library, library.others, library.others_size))) {
        return 0;
    }
    if (wanted->index > 0) {
        wanted->index--;
        return 0;
    }
    wanted->path = info->dlpi_name;
    return 1;
}

shim_view shim_library_out_of_reach(size_t index)
{
    search wanted = {.index = index};
    (void)dl_iterate_phdr(look, &wanted);
    return wanted.path != NULL ? (shim_view){.bytes = wanted.path, .length = strlen(wanted.path)} : (shim_view){0};
}
