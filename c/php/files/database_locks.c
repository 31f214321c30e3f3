/* Locks that SQLite takes on its files.
 *
 * SQLite uses POSIX record locks. They belong to the process, and the kernel drops all of them when the process closes any
 * descriptor of the file. SQLite avoids that, but other requests do not: md5_file(), copy(), a download of the file. Another
 * process could then write while a request holds a transaction. SQLite therefore gets system calls (sqlite3_vfs,
 * xSetSystemCall()) that take open file description locks (F_OFD_SETLK). Other processes conflict with both kinds.
 *
 * SQLite locks a file once for all connections of the process, through the descriptor of any of them. All locks on a file
 * therefore go through one description, which is opened for them.
 *
 * State. Of the process, as SQLite's own table of locks: `files`, and `by_descriptor`, the file of each descriptor through
 * which SQLite has taken a lock. The description is closed, and its locks with it, when SQLite closes the last of these. A
 * forked child begins without any: it does not inherit the locks of POSIX either. */
#include "compat.h"
#include "php/context/context.h"
#include "php/files/files.h"
#include "php/libc/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

/* The beginning of SQLite's structure, which version 3 completes. */
typedef struct sqlite3_vfs {
    int version;
    int file_size;
    int max_path;
    struct sqlite3_vfs *next;
    const char *name;
    void *data;
    void (*methods[13])(void);
    int (*set_system_call)(struct sqlite3_vfs *vfs, const char *name, void (*call)(void));
} sqlite3_vfs;

sqlite3_vfs *sqlite3_vfs_find(const char *name);

typedef struct locked_file {
    dev_t device;
    ino_t inode;
    int description;
    uint32_t descriptors;
    LIST_ENTRY(locked_file) link;
} locked_file;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, locked_file) files;
static struct {
    locked_file **list;
    uint32_t count;
    uint32_t room;
} by_descriptor;

/* Opens the file once more, for writing if possible: the descriptor may be read-only, and a later one take locks for
 * writing. Not a duplicate, which a forked child would share: it unlocks the files that it closes. */
static int open_again(int descriptor)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
    const int description = open(path, O_RDWR | O_CLOEXEC);
    return description >= 0 ? description : open(path, O_RDONLY | O_CLOEXEC);
}

static locked_file *find_or_open(int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0) {
        return NULL;
    }
    locked_file *file;
    LIST_FOREACH(file, &files, link) {
        if (file->device == status.st_dev && file->inode == status.st_ino) {
            return file;
        }
    }
    file = malloc(sizeof(*file));
    if (file == NULL) {
        return NULL;
    }
    *file = (locked_file){.device = status.st_dev, .inode = status.st_ino, .description = open_again(descriptor)};
    LIST_INSERT_HEAD(&files, file, link);
    return file;
}

static locked_file *file_of(int descriptor)
{
    const uint32_t index = (uint32_t)descriptor;
    while (by_descriptor.count <= index && SHIM_RESERVE(by_descriptor)) {
        by_descriptor.list[by_descriptor.count++] = NULL;
    }
    if (by_descriptor.count <= index) {
        return NULL;
    }
    if (by_descriptor.list[index] == NULL && (by_descriptor.list[index] = find_or_open(descriptor)) != NULL) {
        by_descriptor.list[index]->descriptors++;
    }
    return by_descriptor.list[index];
}

/* Without /proc, or if the file system has no open file description locks, SQLite keeps its POSIX locks. */
static int lock_record(int descriptor, int command, struct flock *lock)
{
    pthread_mutex_lock(&mutex);
    const locked_file *file = file_of(descriptor);
    const int description = file != NULL ? file->description : -1;
    pthread_mutex_unlock(&mutex);
    if (description < 0) {
        return fcntl(descriptor, command, lock);
    }
    lock->l_pid = 0;
    const int of_description = command == F_GETLK ? F_OFD_GETLK : command == F_SETLK ? F_OFD_SETLK : F_OFD_SETLKW;
    const int result = fcntl(description, of_description, lock);
    return result == 0 || errno != EINVAL ? result : fcntl(descriptor, command, lock);
}

static int control_descriptor(int descriptor, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    const bool locks = command == F_GETLK || command == F_SETLK || command == F_SETLKW;
    return locks ? lock_record(descriptor, command, argument) : fcntl(descriptor, command, argument);
}

static void drop_file(locked_file *file)
{
    if (file->description >= 0) {
        (void)NEXT(close)(file->description);
    }
    LIST_REMOVE(file, link);
    free(file);
}

static int close_descriptor(int descriptor)
{
    pthread_mutex_lock(&mutex);
    locked_file *file = (uint32_t)descriptor < by_descriptor.count ? by_descriptor.list[descriptor] : NULL;
    if (file != NULL) {
        by_descriptor.list[descriptor] = NULL;
        if (--file->descriptors == 0) {
            drop_file(file);
        }
    }
    pthread_mutex_unlock(&mutex);
    return close(descriptor);
}

static void lock_table(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock_table(void)
{
    pthread_mutex_unlock(&mutex);
}

static void forget_table(void)
{
    while (!LIST_EMPTY(&files)) {
        drop_file(LIST_FIRST(&files));
    }
    by_descriptor.count = 0;
    pthread_mutex_unlock(&mutex);
}

static const char *const libraries[] = {"libsqlite3.so.0"};

/* SQLite counts the memory that the process uses, under one mutex for all threads: a request of Drupal takes it ten thousand
 * times, and workers wait for each other there. Only heap limits depend on the count; the pragmas that set them would affect
 * all requests, and are ignored (php/bailout/sqlite.c). Call before the first use of SQLite. */
static void stop_counting_memory(void)
{
    enum { SQLITE_CONFIG_MEMSTATUS = 9 };
    int (*const configure)(int, ...) =
        (__typeof__(configure))shim_library(SHIM_SLOT, "sqlite3_config", libraries, SHIM_COUNT(libraries));
    if (configure != NULL) {
        (void)configure(SQLITE_CONFIG_MEMSTATUS, 0);
    }
}

void shim_database_locks_install(void)
{
    stop_counting_memory();
    sqlite3_vfs *(*const find)(const char *) =
        (__typeof__(find))shim_library(SHIM_SLOT, "sqlite3_vfs_find", libraries, SHIM_COUNT(libraries));
    sqlite3_vfs *const vfs = find != NULL ? find("unix") : NULL;
    if (vfs == NULL || vfs->version < 3) {
        return;
    }
    pthread_atfork(lock_table, unlock_table, forget_table);
    vfs->set_system_call(vfs, "fcntl", (void (*)(void))control_descriptor);
    vfs->set_system_call(vfs, "close", (void (*)(void))close_descriptor);
}
