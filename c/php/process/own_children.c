/* The processes that requests have started (proc_open, popen, exec, pcntl_fork), by their IDs.
 *
 * The server is the parent of all of them. The system keeps an entry for a process that has ended until its parent
 * reads its status. A script need not do that, and when a process of php-fpm ends, its children get another parent.
 * Here, a request that ends leaves its children to the server, whose main thread reaps them when it learns that one has
 * ended (php/process/signals.c). It waits for those processes only, never for any that has ended: requests still wait for
 * the others.
 *
 * A variable may outlive its request and read the status later (proc_close() of a worker's static variable), so the
 * status of the last children is kept.
 *
 * Invariants. A process is in the list from its start until its status was received. An entry without an owner belongs
 * to the server. The system reuses an ID only after the status was received, so no entry stands for another process. */
#include "compat.h"
#include "php/libc/libc.h"
#include "php/process/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { KEPT_MAX = 1024 };

typedef struct child {
    struct child *next;
    pid_t pid;
    /* NULL: the server. */
    const shim_context *owner;
    bool was_collected;
    int status;
} child;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static child *first;
static size_t kept;

static child **place_of(pid_t pid)
{
    child **at = &first;
    while (*at != NULL && (*at)->pid != pid) {
        at = &(*at)->next;
    }
    return at;
}

static void drop(child **at)
{
    child *entry = *at;
    *at = entry->next;
    kept -= entry->was_collected;
    free(entry);
}

static void drop_oldest(void)
{
    child **oldest = NULL;
    for (child **at = &first; *at != NULL; at = &(*at)->next) {
        oldest = (*at)->was_collected ? at : oldest;
    }
    if (oldest != NULL) {
        drop(oldest);
    }
}

/* Reaps the child if it has ended and has no owner. */
static void collect(child *entry)
{
    if (entry->owner == NULL && !entry->was_collected && NEXT(waitpid)(entry->pid, &entry->status, WNOHANG) != 0) {
        entry->was_collected = true;
        kept++;
    }
}

void shim_child_started(pid_t pid)
{
    if (shim_current == NULL || shim_is_child) {
        return;
    }
    child *entry = malloc(sizeof(*entry));
    if (entry == NULL) {
        /* The child stays in the system's table if its request does not wait for it. */
        return;
    }
    *entry = (child){.pid = pid, .owner = shim_current};
    shim_current->has_children = true;
    pthread_mutex_lock(&lock);
    child **former = place_of(pid);
    if (*former != NULL) {
        drop(former);
    }
    entry->next = first;
    first = entry;
    pthread_mutex_unlock(&lock);
}

void shim_child_taken(pid_t pid)
{
    if (shim_is_child) {
        return;
    }
    pthread_mutex_lock(&lock);
    child **at = place_of(pid);
    if (*at != NULL) {
        drop(at);
    }
    pthread_mutex_unlock(&lock);
}

bool shim_child_collected(pid_t pid, int *status)
{
    if (shim_is_child) {
        return false;
    }
    pthread_mutex_lock(&lock);
    child **at = place_of(pid);
    const bool was_collected = *at != NULL && (*at)->was_collected;
    if (was_collected) {
        *status = (*at)->status;
        drop(at);
    }
    pthread_mutex_unlock(&lock);
    return was_collected;
}

size_t shim_children_of(const shim_context *owner, pid_t *pids, size_t room)
{
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (const child *entry = first; entry != NULL; entry = entry->next) {
        if (entry->owner == owner) {
            if (count < room) {
                pids[count] = entry->pid;
            }
            count++;
        }
    }
    pthread_mutex_unlock(&lock);
    return count;
}

void shim_child_abandon(pid_t pid)
{
    const int error = errno;
    pthread_mutex_lock(&lock);
    child *entry = *place_of(pid);
    if (entry != NULL) {
        entry->owner = NULL;
        collect(entry);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
}

void shim_own_children_end(shim_context *owner)
{
    if (!owner->has_children) {
        return;
    }
    owner->has_children = false;
    pthread_mutex_lock(&lock);
    for (child *entry = first; entry != NULL; entry = entry->next) {
        if (entry->owner == owner) {
            entry->owner = NULL;
            collect(entry);
        }
    }
    pthread_mutex_unlock(&lock);
}

void shim_children_collect(void)
{
    pthread_mutex_lock(&lock);
    for (child *entry = first; entry != NULL; entry = entry->next) {
        collect(entry);
    }
    while (kept > KEPT_MAX) {
        drop_oldest();
    }
    pthread_mutex_unlock(&lock);
}
