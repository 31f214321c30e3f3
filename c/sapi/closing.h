/* Streams that scripts can name and must not close. */
#ifndef SVC_SHIM_CLOSING_H
#define SVC_SHIM_CLOSING_H

void shim_closing_install(void);

#endif
