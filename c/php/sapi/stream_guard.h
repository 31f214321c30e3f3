/* Streams that scripts can reach but must not close. */
#ifndef SVC_SHIM_STREAM_GUARD_H
#define SVC_SHIM_STREAM_GUARD_H

void shim_stream_guard_install(void);

#endif
