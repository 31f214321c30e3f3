/* PHP's own end of a request. */
#ifndef SVC_SHIM_REQUEST_SHUTDOWN_H
#define SVC_SHIM_REQUEST_SHUTDOWN_H

/* Calls php_request_shutdown() with a time limit that covers the last code of the script. A bailout out of it makes the
 * thread spent (shim_is_spent). */
void shim_request_shutdown(void);

#endif
