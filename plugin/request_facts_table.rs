//! The facts of a request that has ended: one declaration each.

/// Calls a macro with the facts: the name, the kind, and the field of `struct svc_request_facts` in
/// `include/svc_plugin.h`.
#[doc(hidden)]
#[macro_export]
macro_rules! each_request_fact {
    ($with:ident) => {
        $with! {
            /// The method as the client wrote it; empty, like the path, if the request could not be read.
            method: Text as method,
            /// The path without the query; not decoded.
            path: Text as path,
            /// The protocol, such as `HTTP/1.1`.
            protocol: Text as protocol,
            /// The address of the client.
            client: Text as client,
            /// The request ID.
            request_id: Text as request_id,
            /// The trace ID; empty without a trace.
            trace_id: Text as trace_id,
            /// The reason why the request was not admitted; empty if it was admitted.
            shed_reason: Text as shed_reason,
            /// The status; 499 if the client had left before the response.
            status: Status as status,
            /// The bytes of the response's body that were sent.
            response_bytes: Count as response_bytes,
            /// The time from the first byte of the request to the last byte of the response.
            duration: Time as duration_us,
            /// The time in the queue; `None` if no worker took the request.
            queue_wait: OptionalTime as queue_wait_us,
        }
    };
}
