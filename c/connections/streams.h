/* PHP's own streams over sockets. */
#ifndef SVC_SHIM_STREAM_TURNS_H
#define SVC_SHIM_STREAM_TURNS_H

/* Has PHP's functions take the sockets of the streams that they are given. Before any thread runs PHP. */
void shim_streams_follow(void);

#endif
