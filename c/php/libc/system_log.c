/* openlog(), syslog() and closelog() of a request.
 *
 * libc has one identity, one set of options and one facility for the process, and stores only a pointer to the identity.
 * PHP frees the identity before it calls openlog() with the next one, so that another thread could write a record with
 * freed memory. Here each request has its own settings. A thread writes a record under a lock with the settings of its
 * request, and clears the identity afterwards. */
#include "compat.h"
#include "php/libc/libc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <syslog.h>

/* syslog() and vsyslog() in code compiled with _FORTIFY_SOURCE. */
extern void __syslog_chk(int priority, int flag, const char *format, ...);
extern void __vsyslog_chk(int priority, int flag, const char *format, va_list arguments);

struct shim_log_settings {
    int option;
    int facility;
    /* Whether there is an identity; libc uses the name of the program otherwise. */
    bool has_identity;
    char identity[];
};
typedef struct shim_log_settings log_settings;

__thread shim_system_log_layers shim_system_log;

void openlog(const char *identity, int option, int facility)
{
    const size_t size = identity != NULL ? strlen(identity) + 1 : 0;
    log_settings *log = malloc(sizeof(*log) + size);
    free(shim_system_log.own);
    shim_system_log.own = log;
    if (log == NULL) {
        return;
    }
    /* A facility of 0 would leave that of the previous record in force. */
    *log = (log_settings){
        .option = option, .facility = facility != 0 ? facility : LOG_USER, .has_identity = identity != NULL};
    memcpy(log->identity, identity != NULL ? identity : "", size);
}

void closelog(void)
{
    free(shim_system_log.own);
    shim_system_log.own = NULL;
}

static void write_record(int priority, const char *format, va_list arguments)
{
    static const log_settings defaults = {.facility = LOG_USER};
    const log_settings *log = shim_system_log.own != NULL ? shim_system_log.own : shim_system_log.boot;
    if (log == NULL) {
        log = &defaults;
    }
    shim_libc_lock(SHIM_LOCK_OF_LOG);
    NEXT(openlog)(log->has_identity ? log->identity : NULL, log->option, log->facility);
    NEXT(vsyslog)(priority, format, arguments);
    NEXT(closelog)();
    shim_libc_unlock(SHIM_LOCK_OF_LOG);
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

void shim_system_log_end(void)
{
    closelog();
}
