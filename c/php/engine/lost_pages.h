/* Pages of mapped files that another process or request has truncated. */
#ifndef SVC_SHIM_LOST_PAGES_H
#define SVC_SHIM_LOST_PAGES_H

#include <stdbool.h>

void shim_lost_pages_install(void);
/* Whether code of the current request has read such a page; each occurrence is reported once. */
bool shim_lost_pages_take(void);

#endif
