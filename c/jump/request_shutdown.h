/* PHP's own end of a request. */
#ifndef SVC_SHIM_REQUEST_SHUTDOWN_H
#define SVC_SHIM_REQUEST_SHUTDOWN_H

/* php_request_shutdown(), with a time limit up to the last code of the script. A bailout that has left it makes the thread
 * spent (shim_is_spent). */
void shim_request_shutdown(void);

#endif
