/* What an application has set up that boots inside of its first request. */
#ifndef SVC_SHIM_LATE_BOOT_H
#define SVC_SHIM_LATE_BOOT_H

void shim_late_boot_expect(void);
void shim_late_boot_take(void);
void shim_late_boot_give(void);

#endif
