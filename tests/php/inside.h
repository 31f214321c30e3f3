/* For test extensions that call internal functions of the server. It does not export the shim, so the test defines their
 * addresses, relative to the beginning of the program. */
#include <php.h>

#include <link.h>

static int take_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    /* The first entry is the program. */
    return 1;
}

static uintptr_t base(void)
{
    uintptr_t base = 0;
    dl_iterate_phdr(take_base, &base);
    return base;
}

/* The parameters of these functions do not matter. */
ZEND_BEGIN_ARG_INFO_EX(arginfo_any, 0, 0, 0)
    ZEND_ARG_VARIADIC_INFO(0, arguments)
ZEND_END_ARG_INFO()
