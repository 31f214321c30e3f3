/* The libraries whose waits for sockets, pipes and names can suspend a request.
 *
 * All loaded code calls the replacement of a libc function. Some libraries hold a mutex while they wait, or keep state
 * in a variable of the thread that a second caller would overwrite: a request suspended inside them would block or
 * confuse the next one. The source of the libraries listed here was reviewed, and they do neither; all others wait as
 * they do without svc. docs/hooks.md repeats the list.
 *
 * Invariants. Ranges are only added: PHP unloads an extension when its process ends, if at all. A range is complete
 * before its number is published. */
#include "compat.h"
#include "worker/hooks/hooks.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Prefixes of file names. */
static const char *const libraries[] = {"libcurl", "libhashkit.so", "libmemcached", "libphp", "libpq.so"};
/* Names of extensions that PHP loads; bundled ones are listed in case PHP was built with them shared. */
static const char *const extensions[] = {
    "curl.so",  "ftp.so",    "memcached.so", "mysqli.so", "mysqlnd.so", "openssl.so",   "pdo_mysql.so", "pdo_pgsql.so",
    "pgsql.so", "posix.so", "redis.so",     "relay.so",  "soap.so",    "sockets.so",
};

enum { RANGES_MAX = 64 };

static struct {
    uintptr_t begin;
    uintptr_t end;
} ranges[RANGES_MAX];
static unsigned range_count;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

/* Whether the library in this file is such a library. */
static bool library_is_known(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < SHIM_COUNT(libraries); i++) {
        if (strncmp(name, libraries[i], strlen(libraries[i])) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < SHIM_COUNT(extensions); i++) {
        if (strcmp(name, extensions[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_known(uintptr_t address, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (address - ranges[i].begin < ranges[i].end - ranges[i].begin) {
            return true;
        }
    }
    return false;
}

static int add_library(struct dl_phdr_info *library, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (!library_is_known(library->dlpi_name)) {
        return 0;
    }
    for (size_t i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        const uintptr_t begin = library->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0 || range_count == RANGES_MAX ||
            is_known(begin, range_count)) {
            continue;
        }
        ranges[range_count].begin = begin;
        ranges[range_count].end = begin + part->p_memsz;
        __atomic_store_n(&range_count, range_count + 1, __ATOMIC_RELEASE);
    }
    return 0;
}

void shim_callers_scan(void)
{
    pthread_mutex_lock(&adding);
    (void)dl_iterate_phdr(add_library, NULL);
    pthread_mutex_unlock(&adding);
}

bool shim_caller_is_known(const void *address)
{
    return is_known((uintptr_t)address, __atomic_load_n(&range_count, __ATOMIC_ACQUIRE));
}

/* ---- whether their calls reach the replacements of libc functions ---- */

/* Usually the dynamic linker takes care of that. However, a library may contain a function with such a name itself, or
 * may have been linked so that it prefers that of libc. This reads the addresses that the linker has written into each
 * known library for a name. A name that is resolved at its first call points into the library itself until then, and
 * will be resolved in the usual order. */

static const char *const names[] = {
#define SHIM_INTERPOSE(name) #name,
#include "php/libc/interposed.def"
#undef SHIM_INTERPOSE
};

/* The search parameter: the library with this index among those without hooks. */
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
    for (size_t i = 0; i < SHIM_COUNT(names); i++) {
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
           strncmp(name, "mysqlnd_", 8) == 0 || strncmp(name, "sapi_", 5) == 0 || strncmp(name, "PQ", 2) == 0;
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
    for (size_t i = 0; library != NULL && !has && i < SHIM_COUNT(names); i++) {
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
    if (!library_is_known(info->dlpi_name) || !read_linking(info, &library) ||
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

/* Declared in shim.h. */
shim_view shim_library_without_hooks(size_t index)
{
    search wanted = {.index = index};
    (void)dl_iterate_phdr(look, &wanted);
    return wanted.path != NULL ? (shim_view){.bytes = wanted.path, .length = strlen(wanted.path)} : (shim_view){0};
}
