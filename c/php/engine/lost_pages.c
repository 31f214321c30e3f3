/* SIGBUS in mappings of files that were truncated.
 *
 * Accessing a mapped page beyond the end of its file raises SIGBUS, which ends the process. Libraries that work without
 * mappings get none (at the end of this file). Other mappings can still lose pages when a request or another program
 * truncates the file: fonts, databases of extensions, the index of SQLite's write-ahead log. The handler makes the access
 * succeed. It extends the file of a mapping that is shared and writable, so that all processes see the same contents; any
 * other mapping gets pages of zeros from the fault to its end. The library's results are not trustworthy after that, so
 * the request ends with a fatal error when the call returns.
 *
 * The handler makes system calls, and calls no function of libc that takes a lock. It passes on all other faults: invalid
 * memory, mappings of code, anonymous memory, and shared files without an open descriptor. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static struct sigaction others;
static size_t page_size;

/* A line of /proc/self/maps. */
typedef struct mapping {
    uintptr_t begin;
    uintptr_t end;
    bool may_write;
    bool is_code;
    bool is_shared;
    uint64_t offset;
    unsigned major;
    unsigned minor;
    uint64_t inode;
} mapping;

/* ---- the mapping at an address ---- */

/* 7f0000000000-7f0000001000 rw-s 00000000 08:01 1234 … */
static mapping read_line(char *at)
{
    mapping line = {.begin = strtoul(at, &at, 16)};
    line.end = strtoul(at + 1, &at, 16);
    if (strlen(at) < 6) {
        return (mapping){0};
    }
    line.may_write = at[2] == 'w';
    line.is_code = at[3] == 'x';
    line.is_shared = at[4] == 's';
    line.offset = strtoul(at + 6, &at, 16);
    line.major = (unsigned)strtoul(at, &at, 16);
    line.minor = (unsigned)strtoul(at + 1, &at, 16);
    line.inode = strtoul(at, &at, 10);
    return line;
}

static bool look_up(uintptr_t address, mapping *found)
{
    /* Signal stacks are small. */
    char text[512], line[128];
    size_t length = 0;
    ssize_t got;
    bool is_found = false;
    const ssize_t descriptor = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (descriptor >= 0 && !is_found && (got = syscall(SYS_read, descriptor, text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < got && !is_found; i++) {
            if (text[i] != '\n') {
                /* The rest of the line is the name. */
                length += length < sizeof(line) - 1;
                line[length - 1] = text[i];
                continue;
            }
            line[length] = '\0';
            length = 0;
            *found = read_line(line);
            is_found = address >= found->begin && address < found->end;
        }
    }
    if (descriptor >= 0) {
        (void)syscall(SYS_close, descriptor);
    }
    return is_found;
}

/* ---- the repair ---- */

/* Extends the file of a mapping through a descriptor: a library that maps a file for writing keeps it open. */
static bool extend(const mapping *map, uint64_t length)
{
    for (int descriptor = 0, misses = 0; misses < 4096; descriptor++) {
        struct stat file;
        if (fstat(descriptor, &file) != 0) {
            misses++;
            continue;
        }
        if (S_ISREG(file.st_mode) && file.st_ino == map->inode && major(file.st_dev) == map->major &&
            minor(file.st_dev) == map->minor &&
            ((uint64_t)file.st_size >= length || ftruncate(descriptor, (off_t)length) == 0)) {
            return true;
        }
    }
    return false;
}

static bool make_up(uintptr_t address)
{
    mapping map;
    const uintptr_t page = address & ~(uintptr_t)(page_size - 1);
    if (!look_up(address, &map) || map.inode == 0 || map.is_code) {
        return false;
    }
    if (map.is_shared && map.may_write) {
        return extend(&map, map.offset + (page - map.begin) + page_size);
    }
    const int protection = PROT_READ | (map.may_write ? PROT_WRITE : 0);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    return syscall(SYS_mmap, page, map.end - page, protection, flags, -1, 0) != -1;
}

static void on_fault(int number, siginfo_t *info, void *place)
{
    const int error = errno;
    if (info->si_code == BUS_ADRERR && make_up((uintptr_t)info->si_addr)) {
        if (shim_current != NULL) {
            shim_current->has_lost_pages = true;
            zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
        }
        errno = error;
        return;
    }
    shim_signal_pass_on(&others, number, info, place);
}

bool shim_lost_pages_take(void)
{
    const bool lost = shim_current != NULL && shim_current->has_lost_pages;
    if (lost) {
        shim_current->has_lost_pages = false;
    }
    return lost;
}

void shim_lost_pages_install(void)
{
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, &others);
}

/* ---- mappings of PHP ---- */

/* Files that are mapped into memory: a replacement of mmap().
 *
 * A process that reads a page of a mapped file beyond its present end receives SIGBUS. Under php-fpm, a file that one
 * request truncates while another one reads it costs one process; here, it would cost all requests. PHP maps the plain
 * files that readfile(), fpassthru(), copy() and similar functions read, and SQLite maps databases (PRAGMA mmap_size):
 * both fall back to reading if the system cannot map them, so the call always fails for them. Mappings without such a
 * fallback remain (SQLite's index of a write-ahead log, fonts, databases of extensions); php/engine/lost_pages.c replaces
 * their lost pages. */

/* Whether code at this address belongs to a library that reads a file if it cannot map it. */
static bool can_read_instead(const void *caller)
{
    const char *name = shim_library_at(caller);
    return strncmp(name, ZEND_STRL("libphp")) == 0 || strncmp(name, ZEND_STRL("libsqlite3")) == 0;
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
