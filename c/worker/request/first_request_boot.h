/* The settings of an application that boots inside its first request. */
#ifndef SVC_SHIM_FIRST_REQUEST_BOOT_H
#define SVC_SHIM_FIRST_REQUEST_BOOT_H

void shim_first_request_boot_expect(void);
void shim_first_request_boot_take(void);
void shim_first_request_boot_give(void);

#endif
