/* The statistics of mysqlnd, without a mutex.
 *
 * A thread-safe PHP locks a mutex for each event that mysqlnd counts: twice, for the process and for the connection, and some
 * five times for each row. A request with a few dozen queries locks thousands of times, on a mutex that all threads share.
 * php-fpm's PHP does not lock at all. The executable defines the function that creates statistics before libphp does, and leaves
 * them without a mutex, which PHP's functions for mutexes (php/bailout/mutexes.c) take for one that is free.
 *
 * A connection is used by one thread at a time, so that its statistics stay exact. Those of the process are for reports:
 * if two threads count the same event at the same instant, one of the two may be missing. */
#include "compat.h"

#if __has_include(<ext/mysqlnd/mysqlnd.h>)
#include "php/libc/libc.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <ext/mysqlnd/mysqlnd.h>
#include <ext/mysqlnd/mysqlnd_statistics.h>
#pragma GCC diagnostic pop

PHPAPI void mysqlnd_stats_init(MYSQLND_STATS **stats, const size_t statistic_count, const bool persistent)
{
    NEXT(mysqlnd_stats_init)(stats, statistic_count, persistent);
    tsrm_mutex_free((*stats)->LOCK_access);
    (*stats)->LOCK_access = NULL;
}
#else
/* A PHP without mysqlnd does not call it. */
void mysqlnd_stats_init(void);
void mysqlnd_stats_init(void) {}
#endif
