/* Files that are mapped into memory: a replacement of mmap().
 *
 * A process that reads a page of a mapped file beyond its present end receives SIGBUS. Under php-fpm, a file that one
 * request truncates while another one reads it costs one process; here, it would cost all requests. PHP maps the plain
 * files that readfile(), fpassthru(), copy() and similar functions read, and SQLite maps databases (PRAGMA mmap_size):
 * both fall back to reading if the system cannot map them, so the call always fails for them. Mappings without such a
 * fallback remain (SQLite's index of a write-ahead log, fonts, databases of extensions); php/engine/lost_pages.c replaces
 * their lost pages. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whether code at this address belongs to a library that reads a file if it cannot map it. */
static bool can_read_instead(const void *caller)
{
    static const char *const libraries[] = {"libphp", "libsqlite3"};
    Dl_info info;
    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const char *name = slash != NULL ? slash + 1 : info.dli_fname;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (strncmp(name, libraries[i], strlen(libraries[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void *map(void *address, size_t length, int protection, int flags, int descriptor, off_t offset, const void *caller)
{
    /* Mappings for writing or for code have no fallback. */
    const bool is_reader = descriptor >= 0 && (flags & MAP_ANONYMOUS) == 0 && (protection & (PROT_WRITE | PROT_EXEC)) == 0;
    if (is_reader && shim_current != NULL && can_read_instead(caller)) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    /* Not through libc: the dynamic linker and the allocator map memory before a name can be looked up. */
    return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
}

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset)
{
    return map(address, length, protection, flags, descriptor, offset, __builtin_return_address(0));
}

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset)
{
    return map(address, length, protection, flags, descriptor, offset, __builtin_return_address(0));
}
