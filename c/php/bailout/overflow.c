/* The end of a stack.
 *
 * PHP checks its stack where scripts call functions, but not where the engine itself follows a structure: comparing,
 * printing, copying or serializing a structure that is nested deeply enough overflows the stack and crashes the whole
 * process. Here, the last pages of every stack that PHP runs on are protected. PHP's own code that reaches one of them
 * bails out, as after any fatal error. For all other code, which may hold a lock or have frames that must not be
 * skipped, the page is made accessible, and the next page is checked the same way.
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
 * (zend.reserved_stack_size). */
enum { PAGES = 3 };

static size_t page_size;
static struct sigaction others;

/* Code that a bailout may leave: libphp and OPcache. */
enum { RANGES_MAX = 2 };
static struct range {
    uintptr_t from;
    uintptr_t to;
} ranges[RANGES_MAX];
static size_t ranges_count;

static __thread struct {
    /* The end of the thread's own stack; NULL if no PHP runs on this thread. */
    char *end;
    /* Whether the current bailout comes from the end of a stack. */
    bool was_reached;
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

static bool may_be_left(const ucontext_t *place)
{
#if defined(__x86_64__)
    const uintptr_t at = (uintptr_t)place->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    const uintptr_t at = (uintptr_t)place->uc_mcontext.pc;
#else
    const uintptr_t at = 0;
#endif
    for (size_t i = 0; i < ranges_count; i++) {
        if (at >= ranges[i].from && at < ranges[i].to) {
            return EG(bailout) != NULL;
        }
    }
    return false;
}

/* Passes on a fault that is not ours. */
static void pass_on(int number, siginfo_t *info, void *place)
{
    if ((others.sa_flags & SA_SIGINFO) != 0 && others.sa_sigaction != NULL) {
        others.sa_sigaction(number, info, place);
    }
    shim_signal_by_default(number, info);
}

static void on_fault(int number, siginfo_t *info, void *place)
{
    char *at = info->si_addr;
    char *end = own.end != NULL ? end_of_current() : NULL;
    /* The page below is the system's guard page. */
    if (end == NULL || at < end - page_size || at >= end + PAGES * page_size) {
        pass_on(number, info, place);
        return;
    }
    if (may_be_left(place)) {
        own.was_reached = true;
        shim_callee_forget();
        zend_bailout();
    }
    if (at < end) {
        pass_on(number, info, place);
        return;
    }
    (void)mprotect((char *)((uintptr_t)at & ~(page_size - 1)), page_size, PROT_READ | PROT_WRITE);
}

bool shim_overflow_report(void)
{
    if (!own.was_reached) {
        return false;
    }
    own.was_reached = false;
    close_pages(end_of_current());
    static const char text[] = "Maximum call stack size reached inside the engine: a structure is nested too deeply";
    const shim_log record = {
        .source = SHIM_LOG_ERROR,
        .error_type = E_ERROR,
        .message = shim_view_of(text, sizeof(text) - 1),
    };
    shim_host.io.log(shim_request_host(), &record);
    if (shim_current != NULL) {
        shim_current->fatal = true;
    }
    /* PHP does the same for an error that ends a script. */
    if (!SG(headers_sent) && SG(sapi_headers).http_response_code == 200) {
        SG(sapi_headers).http_response_code = 500;
    }
    return true;
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

/* Records the executable segments of the library that contains this function. */
static void add_range_of(const void *function)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (function == NULL || ranges_count == RANGES_MAX || dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP) == 0) {
        return;
    }
    const ElfW(Ehdr) *head = info.dli_fbase;
    const ElfW(Phdr) *part = (const ElfW(Phdr) *)((const char *)info.dli_fbase + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++) {
        if (part[i].p_type == PT_LOAD && (part[i].p_flags & PF_X) != 0) {
            ranges[ranges_count].from = (uintptr_t)map->l_addr + part[i].p_vaddr;
            ranges[ranges_count].to = ranges[ranges_count].from + part[i].p_memsz;
            ranges_count++;
            return;
        }
    }
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
    add_range_of(dlsym(RTLD_NEXT, "zend_array_destroy"));
    const zend_extension *opcache = zend_get_extension("Zend OPcache");
    add_range_of(opcache != NULL ? (const void *)opcache->startup : NULL);
    zend_observer_fiber_init_register(close_new);
    /* The handler ends by longjmp(): the signal must not stay blocked. */
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGSEGV, &action, &others);
}
