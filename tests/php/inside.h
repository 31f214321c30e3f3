/* For extensions of tests that call what is inside of the server. It exports nothing of the shim, so the test defines the
 * addresses, from the beginning of the program. */
#include <php.h>

#include <link.h>

static int take_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    /* The first one is the program. */
    return 1;
}

static uintptr_t base(void)
{
    uintptr_t base = 0;
    dl_iterate_phdr(take_base, &base);
    return base;
}

/* Parameters do not matter to these functions. */
ZEND_BEGIN_ARG_INFO_EX(arginfo_any, 0, 0, 0)
    ZEND_ARG_VARIADIC_INFO(0, arguments)
ZEND_END_ARG_INFO()
