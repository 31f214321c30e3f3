/* Absolute paths, which need no working directory.
 *
 * A thread-safe PHP has a working directory for each request, and resolves each path against it, link by link, before it
 * asks the system about the file. For a path that is absolute already, this asks the system at once, as php-fpm does, which
 * also follows links that have changed since PHP resolved them last. */
#include "compat.h"
#include "files/paths.h"

#include <zend_virtual_cwd.h>

#include <dlfcn.h>
#include <unistd.h>

static int (*next_stat)(const char *, zend_stat_t *);
static int (*next_access)(const char *, int);

/* Defined before libphp's. */
CWD_API int virtual_stat(const char *path, zend_stat_t *buffer)
{
    return path[0] == '/' ? php_sys_stat(path, buffer) : next_stat(path, buffer);
}

CWD_API int virtual_access(const char *path, int mode)
{
    return path[0] == '/' ? access(path, mode) : next_access(path, mode);
}

bool shim_paths_prepare(void)
{
    next_stat = (int (*)(const char *, zend_stat_t *))dlsym(RTLD_NEXT, "virtual_stat");
    next_access = (int (*)(const char *, int))dlsym(RTLD_NEXT, "virtual_access");
    return next_stat != NULL && next_access != NULL;
}
