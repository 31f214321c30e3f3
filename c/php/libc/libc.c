/* The executable's replacements of libc functions.
 *
 * Some of libc's functions have to behave differently in a PHP server; interposed.def lists them with the files that
 * define them. The dynamic linker binds libphp, and every library that it loads, to a function of the executable in
 * preference to that of libc. PHP would exempt its extensions from that, including OPcache, because it loads them with
 * RTLD_DEEPBIND. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <dlfcn.h>
#include <pthread.h>

void *shim_next(void **slot, const char *name)
{
    void *function = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (function == NULL) {
        function = dlsym(RTLD_NEXT, name);
        __atomic_store_n(slot, function, __ATOMIC_RELAXED);
    }
    return function;
}

void *shim_library(void **slot, const char *name, const char *const *files, size_t count)
{
    void *function = shim_next(slot, name);
    for (size_t i = 0; function == NULL && i < count; i++) {
        void *library = NEXT(dlopen)(files[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            function = dlsym(library, name);
            dlclose(library);
            __atomic_store_n(slot, function, __ATOMIC_RELAXED);
        }
    }
    return function;
}

void *shim_libpq(void **slot, const char *name)
{
    static const char *const files[] = {"libpq.so.5"};
    return shim_library(slot, name, files, SHIM_COUNT(files));
}

static pthread_mutex_t locks[] = {
    [SHIM_LOCK_OF_LOG] = PTHREAD_MUTEX_INITIALIZER,
    [SHIM_LOCK_OF_BINDINGS] = PTHREAD_MUTEX_INITIALIZER,
    [SHIM_LOCK_OF_LDAP] = PTHREAD_MUTEX_INITIALIZER,
};

void shim_libc_lock(shim_libc_lock_id id)
{
    pthread_mutex_lock(&locks[id]);
}

void shim_libc_unlock(shim_libc_lock_id id)
{
    pthread_mutex_unlock(&locks[id]);
}

static void before_fork(void)
{
    for (size_t id = 0; id < SHIM_COUNT(locks); id++) {
        pthread_mutex_lock(&locks[id]);
    }
}

static void after_fork(void)
{
    for (size_t id = 0; id < SHIM_COUNT(locks); id++) {
        pthread_mutex_unlock(&locks[id]);
    }
}

void shim_libc_install(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

const char *shim_library_at(const void *address)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        return "";
    }
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL ? slash + 1 : info.dli_fname;
}

void (*shim_on_library_loaded)(void);

void *dlopen(const char *path, int mode)
{
    void *library = NEXT(dlopen)(path, mode & ~RTLD_DEEPBIND);
    if (library != NULL && shim_on_library_loaded != NULL) {
        shim_on_library_loaded();
    }
    return library;
}

/* The names whose definitions in the executable precede those of libc. The build script makes the linker export each of
 * them. */
static const char *const names[] = {
#define SHIM_INTERPOSE(name) #name,
#include "php/libc/interposed.def"
#undef SHIM_INTERPOSE
};

/* Returns the first name that the dynamic linker does not find in the executable; NULL if it finds all of them. */
const char *shim_libc_hidden(void)
{
    Dl_info own;
    if (dladdr((void *)shim_libc_hidden, &own) == 0) {
        return "dladdr";
    }
    for (size_t i = 0; i < SHIM_COUNT(names); i++) {
        Dl_info found;
        void *function = dlsym(RTLD_DEFAULT, names[i]);
        if (function == NULL || dladdr(function, &found) == 0 || found.dli_fbase != own.dli_fbase) {
            return names[i];
        }
    }
    return NULL;
}

const char *shim_libphp_missing(void)
{
    static const char *const prefixes[] = {"_php_", "sapi_", "ts_", "tsrm_", "virtual_", "zend_"};
    for (size_t i = 0; i < SHIM_COUNT(names); i++) {
        for (size_t at = 0; at < SHIM_COUNT(prefixes); at++) {
            if (strncmp(names[i], prefixes[at], strlen(prefixes[at])) == 0 && dlsym(RTLD_NEXT, names[i]) == NULL) {
                return names[i];
            }
        }
    }
    return NULL;
}

#ifdef __SANITIZE_ADDRESS__
/* Libraries call the functions above while they are being loaded, which is before the sanitizer is initialized. */
extern void __asan_init(void);
__attribute__((section(".preinit_array"), used)) static void (*const first_of_all)(void) = __asan_init;
#endif
