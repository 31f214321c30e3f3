/* The end of a stack.
 *
 * PHP checks its stack where scripts call functions, but not where the engine itself follows a structure: comparing,
 * printing, copying or serializing a structure that is nested deeply enough overflows the stack and crashes the whole
 * process. Here, the last pages of every stack that PHP runs on are protected. PHP's own code that reaches one of them
 * bails out, as after any fatal error. For all other code, which may hold a lock or have frames that must not be
 * skipped, the page is made accessible, and the next page is checked the same way: a call from the end of a script's stack
 * has that much room. Only a library that recurses (glob() and fnmatch() of libc, patterns of ICU and Oniguruma, templates
 * of libxslt) reaches the last of these pages. It is left, too, because the process would end otherwise, unless it is
 * allocating memory or loading a symbol.
 *
 * A fault that is not at the end of the thread's current stack is passed on to the previous handler. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "shim.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zend_observer.h>

/* The protected pages, below the reserve of the engine's own functions at a script's stack limit
 * (zend.reserved_stack_size): those that libraries may use, above those that they are left at. */
enum { PAGES = 24, LAST_PAGES = 8 };

/* The reserve, unless scripts would be left less than seven times as much; PHP's default has no room for libraries. */
enum { RESERVE = 256 * 1024, RESERVE_SHARE = 8 };

/* The smallest stack of a script's fiber. */
enum { FIBER_STACK_MIN = 1024 * 1024 };

static size_t page_size;
static struct sigaction others;

enum { RANGES_MAX = 4 };
typedef struct ranges {
    struct range {
        uintptr_t from;
        uintptr_t to;
    } each[RANGES_MAX];
    size_t count;
} ranges;

/* Code that a bailout may always leave: libphp and OPcache. */
static ranges of_php;
/* Code that it may never leave: this program, the dynamic linker, and libc's allocator, which holds locks of the process. */
static ranges of_locks;

static __thread struct {
    /* The end of the thread's own stack; NULL if no PHP runs on this thread. */
    char *end;
    /* Whether the current bailout comes from the end of a stack, the code that reached it, and its line of the script. */
    bool was_reached;
    uintptr_t reached_by;
    char file[MAXPATHLEN];
    uint32_t line;
} own;

static char *end_of(zend_fiber_stack *stack)
{
#ifdef ZEND_CHECK_STACK_LIMIT
    return (char *)zend_fiber_stack_limit(stack) - EG(reserved_stack_size);
#else
    (void)stack;
    return NULL;
#endif
}

static char *end_of_current(void)
{
    const zend_fiber_context *context = EG(current_fiber_context);
    return context != NULL && context->stack != NULL ? end_of(context->stack) : own.end;
}

const char *shim_overflow_end(void)
{
    const char *end = end_of_current();
    return end != NULL ? end + PAGES * page_size : NULL;
}

static void close_pages(char *end)
{
    if (end != NULL) {
        (void)mprotect(end, PAGES * page_size, PROT_NONE);
    }
}

static void close_new(zend_fiber_context *context)
{
    close_pages(end_of(context->stack));
}

/* ---- the fault ---- */

static uintptr_t code_of(const ucontext_t *place)
{
#if defined(__x86_64__)
    return (uintptr_t)place->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)place->uc_mcontext.pc;
#else
    return 0;
#endif
}

static bool is_in(const ranges *known, uintptr_t at)
{
    for (size_t i = 0; i < known->count; i++) {
        if (at >= known->each[i].from && at < known->each[i].to) {
            return true;
        }
    }
    return false;
}

static bool may_be_left(uintptr_t code, bool is_last)
{
    return EG(bailout) != NULL && (is_in(&of_php, code) || (is_last && !is_in(&of_locks, code)));
}

static void on_fault(int number, siginfo_t *info, void *place)
{
    char *at = info->si_addr;
    char *end = own.end != NULL ? end_of_current() : NULL;
    /* The page below is the system's guard page. */
    if (end == NULL || at < end - page_size || at >= end + PAGES * page_size) {
        shim_signal_pass_on(&others, number, info, place);
        return;
    }
    const uintptr_t code = code_of(place);
    if (may_be_left(code, at < end + LAST_PAGES * page_size)) {
        own.was_reached = true;
        own.reached_by = code;
        (void)snprintf(own.file, sizeof(own.file), "%s", zend_get_executed_filename());
        own.line = zend_get_executed_lineno();
        shim_callee_forget();
        zend_bailout();
    }
    if (at < end) {
        shim_signal_pass_on(&others, number, info, place);
        return;
    }
    (void)mprotect((char *)((uintptr_t)at & ~(page_size - 1)), page_size, PROT_READ | PROT_WRITE);
}

/* ---- the error ---- */

/* Remembers the error for error_get_last(). */
static void set_last_error(const shim_log *record)
{
    if (PG(last_error_message) != NULL) {
        zend_string_release(PG(last_error_message));
        zend_string_release(PG(last_error_file));
    }
    PG(last_error_type) = record->error_type;
    PG(last_error_message) = zend_string_init(record->message.bytes, record->message.length, false);
    PG(last_error_file) = zend_string_init(record->file.bytes, record->file.length, false);
    PG(last_error_lineno) = (int)record->line;
}

/* Does what PHP and observe_error() (php/sapi/errors.c) do for a fatal error; the bailout has happened already. */
static void report(const char *message)
{
    const shim_log record = {
        .source = SHIM_LOG_ERROR,
        .error_type = E_ERROR,
        .message = shim_view_of_cstr(message),
        .file = shim_view_of_cstr(own.file),
        .line = own.line,
    };
    shim_host.io.error(&record);
    shim_host.io.log(shim_request_host(), &record);
    if (shim_current != NULL) {
        shim_request_failed(shim_own_worker.serving);
        SHIM_CALL_REQUEST_HOOKS(fail, &record, false);
    }
    /* A thread that ends a request has no code left that could ask. */
    if (EG(active)) {
        set_last_error(&record);
    }
}

void shim_overflow_report(void)
{
    if (!own.was_reached) {
        return;
    }
    own.was_reached = false;
    close_pages(end_of_current());
    char text[160] = "Maximum call stack size reached inside the engine: a structure is nested too deeply";
    const char *library = is_in(&of_php, own.reached_by) ? "" : shim_library_at((const void *)own.reached_by);
    if (library[0] != '\0') {
        (void)snprintf(text, sizeof(text), "Maximum call stack size reached inside %.60s: its argument is nested too deeply",
                       library);
    }
    report(text);
}

/* ---- threads and process ---- */

void shim_overflow_thread_start(void)
{
    pthread_attr_t attributes;
    void *end = NULL;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return;
    }
    if (pthread_attr_getstack(&attributes, &end, &size) == 0) {
        own.end = end;
        close_pages(own.end);
    }
    pthread_attr_destroy(&attributes);
}

/* The system reuses the stack for another thread: makes its pages accessible again. */
void shim_overflow_thread_stop(void)
{
    if (own.end != NULL) {
        (void)mprotect(own.end, PAGES * page_size, PROT_READ | PROT_WRITE);
        own.end = NULL;
    }
}

static void add(ranges *known, uintptr_t from, uintptr_t to)
{
    if (known->count < RANGES_MAX) {
        known->each[known->count++] = (struct range){.from = from, .to = to};
    }
}

/* Records the executable segment of the library that contains this function. */
static void add_library_of(ranges *known, const void *function)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (function == NULL || dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP) == 0) {
        return;
    }
    const ElfW(Ehdr) *head = info.dli_fbase;
    const ElfW(Phdr) *part = (const ElfW(Phdr) *)((const char *)info.dli_fbase + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++) {
        if (part[i].p_type == PT_LOAD && (part[i].p_flags & PF_X) != 0) {
            const uintptr_t from = (uintptr_t)map->l_addr + part[i].p_vaddr;
            add(known, from, from + part[i].p_memsz);
            return;
        }
    }
}

/* libc's allocator is one object file: its own functions are between those that it exports, or close to them. */
static void add_allocator(void)
{
    static const char *const names[] = {"malloc", "free", "calloc", "realloc", "memalign", "pvalloc", "mallopt", "malloc_trim",
                                        "malloc_usable_size", "malloc_info"};
    enum { AROUND = 16 * 1024 };
    uintptr_t from = UINTPTR_MAX;
    uintptr_t to = 0;
    for (size_t i = 0; i < SHIM_COUNT(names); i++) {
        const uintptr_t at = (uintptr_t)dlsym(RTLD_NEXT, names[i]);
        if (at != 0) {
            from = at < from ? at : from;
            to = at > to ? at : to;
        }
    }
    if (to != 0) {
        add(&of_locks, from - AROUND, to + AROUND);
    }
}

/* ---- the directives ---- */

static zend_ini_entry *directive(const char *name)
{
    return zend_hash_str_find_ptr(EG(ini_directives), name, strlen(name));
}

static ZEND_INI_MH((*set_fiber_stack));
static zend_string *fiber_stack_min;

/* A smaller stack has no room for the protected pages. */
static ZEND_INI_MH(on_fiber_stack)
{
    zend_string *error = NULL;
    zend_string *value = new_value;
    if (value != NULL) {
        const zend_long size = zend_ini_parse_quantity(value, &error);
        /* PHP refuses smaller ones when a fiber starts. */
        const zend_long accepted = 2 * sysconf(_SC_PAGESIZE);
        value = error == NULL && size >= accepted && size < FIBER_STACK_MIN ? fiber_stack_min : value;
    }
    if (error != NULL) {
        zend_string_release(error);
    }
    return set_fiber_stack(entry, value, mh_arg1, mh_arg2, mh_arg3, stage);
}

static zend_string *number(int value)
{
    char text[24];
    const int length = snprintf(text, sizeof(text), "%d", value);
    return zend_string_init_interned(text, (size_t)length, true);
}

void shim_overflow_prepare(void)
{
    zend_ini_entry *fiber_stack = directive("fiber.stack_size");
    if (fiber_stack != NULL && fiber_stack->on_modify != NULL) {
        set_fiber_stack = fiber_stack->on_modify;
        fiber_stack_min = number(FIBER_STACK_MIN);
        fiber_stack->on_modify = on_fiber_stack;
        (void)on_fiber_stack(fiber_stack, fiber_stack->value, fiber_stack->mh_arg1, fiber_stack->mh_arg2, fiber_stack->mh_arg3,
                             ZEND_INI_STAGE_STARTUP);
    }
#ifdef ZEND_CHECK_STACK_LIMIT
    zend_ini_entry *reserve = directive("zend.reserved_stack_size");
    if (reserve == NULL || reserve->on_modify == NULL || EG(reserved_stack_size) >= RESERVE ||
        (EG(max_allowed_stack_size) > 0 && EG(max_allowed_stack_size) < RESERVE_SHARE * RESERVE)) {
        return;
    }
    zend_string_release(reserve->value);
    reserve->value = number(RESERVE);
    (void)reserve->on_modify(reserve, reserve->value, reserve->mh_arg1, reserve->mh_arg2, reserve->mh_arg3,
                             ZEND_INI_STAGE_STARTUP);
#endif
}

#if defined(__SANITIZE_ADDRESS__)
/* AddressSanitizer reports faults itself. */
static const bool are_faults_ours = false;
#else
static const bool are_faults_ours = true;
#endif

void shim_overflow_install(void)
{
    if (!are_faults_ours) {
        return;
    }
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    add_library_of(&of_php, dlsym(RTLD_NEXT, "zend_array_destroy"));
    const zend_extension *opcache = zend_get_extension("Zend OPcache");
    add_library_of(&of_php, opcache != NULL ? (const void *)opcache->startup : NULL);
    add_library_of(&of_locks, (const void *)shim_overflow_install);
    add_library_of(&of_locks, dlsym(RTLD_NEXT, "__tls_get_addr"));
    add_allocator();
    zend_observer_fiber_init_register(close_new);
    /* The handler ends by longjmp(): the signal must not stay blocked. */
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGSEGV, &action, &others);
}
