/* Errors and the log. */
#ifndef SVC_SHIM_ERRORS_H
#define SVC_SHIM_ERRORS_H

void shim_log_message(const char *message, int priority);
/* Call after all extensions have started. */
void shim_errors_install(void);

#endif
