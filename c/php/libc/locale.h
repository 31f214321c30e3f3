/* The locale of a request. */
#ifndef SVC_SHIM_LOCALE_H
#define SVC_SHIM_LOCALE_H

void shim_locale_end(void);
void shim_locale_capture(void);
void shim_locale_release(void);
void *shim_locale_take(void);
void shim_locale_give(void *own);

#endif
