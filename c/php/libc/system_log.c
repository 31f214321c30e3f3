/* The system's log as a request has opened it (openlog(), syslog(), closelog()).
 *
 * libc keeps one name, one set of options and one facility for the process, and of the name only the pointer. PHP frees a
 * name before it opens the log under the next one, so that a record of another thread would be written under freed
 * memory. Here each request has its own settings, and each thread writes its records one at a time under a lock, under
 * the name of its request. Between two records, libc has no name. In worker mode, a request starts with the settings of
 * the boot script. */
#include "compat.h"
#include "php/libc/libc.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <syslog.h>

/* syslog() and vsyslog() in code compiled with _FORTIFY_SOURCE. */
extern void __syslog_chk(int priority, int flag, const char *format, ...);
extern void __vsyslog_chk(int priority, int flag, const char *format, va_list arguments);

typedef struct log_settings {
    int option;
    int facility;
    /* Whether there is a name; libc uses that of the program otherwise. */
    bool has_name;
    char name[];
} log_settings;

/* NULL unless the request has opened the log, or the boot script of this worker has. */
static __thread log_settings *own_log;
static __thread log_settings *boot_log;

/* Held while libc has a name. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

void openlog(const char *name, int option, int facility)
{
    const size_t size = name != NULL ? strlen(name) + 1 : 0;
    log_settings *log = malloc(sizeof(*log) + size);
    free(own_log);
    own_log = log;
    if (log == NULL) {
        return;
    }
    /* libc keeps the facility of whoever was last if this one is 0. */
    *log = (log_settings){.option = option, .facility = facility != 0 ? facility : LOG_USER, .has_name = name != NULL};
    memcpy(log->name, name != NULL ? name : "", size);
}

void closelog(void)
{
    free(own_log);
    own_log = NULL;
}

static void write_record(int priority, const char *format, va_list arguments)
{
    const log_settings *log = own_log != NULL ? own_log : boot_log;
    pthread_mutex_lock(&writing);
    LIBC(openlog)(log != NULL && log->has_name ? log->name : NULL, log != NULL ? log->option : 0,
                  log != NULL ? log->facility : LOG_USER);
    LIBC(vsyslog)(priority, format, arguments);
    LIBC(closelog)();
    pthread_mutex_unlock(&writing);
}

void vsyslog(int priority, const char *format, va_list arguments)
{
    write_record(priority, format, arguments);
}

void syslog(int priority, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_record(priority, format, arguments);
    va_end(arguments);
}

void __vsyslog_chk(int priority, int flag, const char *format, va_list arguments)
{
    (void)flag;
    write_record(priority, format, arguments);
}

void __syslog_chk(int priority, int flag, const char *format, ...)
{
    (void)flag;
    va_list arguments;
    va_start(arguments, format);
    write_record(priority, format, arguments);
    va_end(arguments);
}

/* ---- the settings of a request ---- */

void shim_system_log_end(void)
{
    closelog();
}

void shim_system_log_capture(void)
{
    boot_log = own_log;
    own_log = NULL;
}

void shim_system_log_release(void)
{
    free(boot_log);
    boot_log = NULL;
}

void *shim_system_log_take(void)
{
    void *log = own_log;
    own_log = NULL;
    return log;
}

void shim_system_log_give(void *log)
{
    own_log = log;
}

/* ---- forked children ---- */

/* A child has no thread that would unlock the mutex. libc's own lock is held under it only. */
static void before_fork(void)
{
    pthread_mutex_lock(&writing);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&writing);
}

void shim_system_log_install(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}
