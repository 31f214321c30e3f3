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
#include "worker/hooks/callers.h"

#include <link.h>
#include <pthread.h>
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

bool shim_library_is_known(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (strncmp(name, libraries[i], strlen(libraries[i])) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
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
    if (!shim_library_is_known(library->dlpi_name)) {
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

void shim_callers_look(void)
{
    pthread_mutex_lock(&adding);
    (void)dl_iterate_phdr(add_library, NULL);
    pthread_mutex_unlock(&adding);
}

bool shim_caller_is_known(const void *address)
{
    return is_known((uintptr_t)address, __atomic_load_n(&range_count, __ATOMIC_ACQUIRE));
}
