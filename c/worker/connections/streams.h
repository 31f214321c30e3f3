/* PHP's socket streams. */
#ifndef SVC_SHIM_STREAM_TURNS_H
#define SVC_SHIM_STREAM_TURNS_H

/* Makes PHP's functions take the sockets of their streams. Called before any thread runs PHP. */
void shim_streams_follow(void);

#endif
