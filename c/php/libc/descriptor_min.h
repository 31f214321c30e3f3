/* The range of the server's own descriptors. */
#ifndef SVC_SHIM_DESCRIPTOR_MIN_H
#define SVC_SHIM_DESCRIPTOR_MIN_H

/* While it serves, the server opens descriptors outside the range that select() supports, which is left to scripts. */
enum { DESCRIPTOR_MIN = 1024 };

#endif
