/* Files by name, looked up as in php-fpm.
 *
 * A thread-safe PHP has a working directory for each request. It resolves each path against it, link by link and from
 * its cache of resolved paths, before it passes the path to the system. That costs system calls, uses a link's former
 * target while the cache contains it, and takes `link/..` for the folder of the link. Here, the system resolves the
 * path, as in php-fpm; a relative one only gets the request's working directory as a prefix.
 *
 * realpath() still uses the cache. Afterwards, a thread-safe PHP checks with the system whether the file exists, every
 * time; the PHP of php-fpm does not, since the path has just been resolved. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "php/libc/libc.h"

#include <zend_virtual_cwd.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utime.h>

/* Functions that check whether the path that they have just resolved exists. */
static zif_handler realpath_function;
static zif_handler get_real_path_method;

/* Room for a path below the working directory. */
typedef struct path_room {
    char bytes[MAXPATHLEN];
} path_room;

/* Prepends the request's working directory to a relative path. Returns NULL and sets errno if the result is too long. */
static const char *from_the_root(const char *path, path_room *room)
{
    if (path[0] == '/' || path[0] == '\0') {
        return path;
    }
    if (virtual_getcwd(room->bytes, sizeof(room->bytes)) == NULL) {
        return NULL;
    }
    size_t start = strlen(room->bytes);
    const size_t length = strlen(path);
    if (start + 1 + length >= sizeof(room->bytes)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    if (start == 0 || room->bytes[start - 1] != '/') {
        room->bytes[start++] = '/';
    }
    memcpy(room->bytes + start, path, length + 1);
    return room->bytes;
}

/* Whether realpath() or SplFileInfo::getRealPath() is running. Both only check the path that they have resolved. */
static bool is_resolved(void)
{
    if (realpath_function == NULL) {
        return false;
    }
    const zend_execute_data *call = EG(current_execute_data);
    if (call == NULL || call->func == NULL || call->func->type != ZEND_INTERNAL_FUNCTION) {
        return false;
    }
    const zif_handler handler = call->func->internal_function.handler;
    return handler == realpath_function || handler == get_real_path_method;
}

/* These definitions take precedence over those of libphp. */

/* The thread's own working directory; empty until a request has changed it. */
static __thread char current[MAXPATHLEN];

/* Returns the directory of the request; NULL if the thread is in it. */
static const char *directory_to_enter(void)
{
    const cwd_state *directory = shim_directory();
    const char *wanted = directory->cwd_length > 0 ? directory->cwd : "/";
    return shim_has_own_directory() && strcmp(current, wanted) == 0 ? NULL : wanted;
}

const char *shim_directory_apart(void)
{
    return shim_current != NULL ? directory_to_enter() : NULL;
}

void shim_directory_follow(void)
{
    const char *wanted = shim_has_own_directory() ? directory_to_enter() : NULL;
    if (wanted == NULL) {
        return;
    }
    /* A removed directory cannot be entered, and the current one may belong to another request. */
    const char *reached = chdir(wanted) == 0 ? wanted : chdir("/") == 0 ? "/" : NULL;
    if (reached != NULL) {
        (void)snprintf(current, sizeof(current), "%s", reached);
    }
}

CWD_API int virtual_chdir(const char *path)
{
    const int result = NEXT(virtual_chdir)(path);
    if (result == 0) {
        shim_directory_follow();
    }
    return result;
}

CWD_API int virtual_access(const char *path, int mode)
{
    if (mode == F_OK && is_resolved()) {
        return 0;
    }
    path_room room;
    const char *name = from_the_root(path, &room);
    return name != NULL ? access(name, mode) : -1;
}

/* A function that passes the path on. */
#define VIRTUAL(type, function, parameters, failure, call) \
    CWD_API type function parameters \
    { \
        path_room room; \
        const char *name = from_the_root(path, &room); \
        return name != NULL ? call : (failure); \
    }

VIRTUAL(int, virtual_stat, (const char *path, zend_stat_t *buffer), -1, php_sys_stat(name, buffer))
VIRTUAL(int, virtual_lstat, (const char *path, zend_stat_t *buffer), -1, php_sys_lstat(name, buffer))
VIRTUAL(FILE *, virtual_fopen, (const char *path, const char *mode), NULL, fopen(name, mode))
VIRTUAL(int, virtual_creat, (const char *path, mode_t mode), -1, creat(name, mode))
VIRTUAL(DIR *, virtual_opendir, (const char *path), NULL, opendir(name))
VIRTUAL(int, virtual_unlink, (const char *path), -1, unlink(name))
VIRTUAL(int, virtual_mkdir, (const char *path, mode_t mode), -1, mkdir(name, mode))
VIRTUAL(int, virtual_rmdir, (const char *path), -1, rmdir(name))
VIRTUAL(int, virtual_utime, (const char *path, struct utimbuf *times), -1, utime(name, times))
VIRTUAL(int, virtual_chmod, (const char *path, mode_t mode), -1, chmod(name, mode))
VIRTUAL(int, virtual_chown, (const char *path, uid_t owner, gid_t group, int is_of_link), -1,
        is_of_link ? lchown(name, owner, group) : chown(name, owner, group))

CWD_API int virtual_open(const char *path, int flags, ...)
{
    path_room room;
    const char *name = from_the_root(path, &room);
    if (name == NULL) {
        return -1;
    }
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return open(name, flags, mode);
}

CWD_API int virtual_rename(const char *from, const char *to)
{
    path_room rooms[2];
    const char *names[2] = {from_the_root(from, &rooms[0]), from_the_root(to, &rooms[1])};
    return names[0] != NULL && names[1] != NULL ? rename(names[0], names[1]) : -1;
}

/* PHP and its extensions pass these paths to libc, which would resolve them against the working directory of the
 * process. The functions below take precedence over those of libc, on threads that run a request. */
#define BEFORE_LIBC(type, function, parameters, ...) \
    type function parameters \
    { \
        path_room room; \
        const char *name = shim_current != NULL ? from_the_root(path, &room) : path; \
        return name != NULL ? NEXT(function)(name, __VA_ARGS__) : -1; \
    }

BEFORE_LIBC(ssize_t, readlink, (const char *path, char *target, size_t size), target, size)
BEFORE_LIBC(int, statvfs, (const char *path, struct statvfs *buffer), buffer)
BEFORE_LIBC(int, mkfifo, (const char *path, mode_t mode), mode)
BEFORE_LIBC(key_t, ftok, (const char *path, int project), project)

static zif_handler handler_in(const HashTable *functions, const char *name)
{
    const zend_function *function = shim_function_find(functions, name);
    return function != NULL ? function->internal_function.handler : NULL;
}

void shim_paths_install(void)
{
    const zend_class_entry *files = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("splfileinfo"));
    get_real_path_method = files != NULL ? handler_in(&files->function_table, "getrealpath") : NULL;
    realpath_function = handler_in(CG(function_table), "realpath");
}
