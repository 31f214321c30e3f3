/* What the parcel of a failed task begins with. */
#ifndef SVC_SHIM_ANSWER_H
#define SVC_SHIM_ANSWER_H

typedef enum shim_answer_kind {
    /* What its function has thrown: a TaskException. */
    SHIM_ANSWER_FAILURE = 0,
    /* Something could not be sent: a TransferException. */
    SHIM_ANSWER_TRANSFER,
} shim_answer_kind;

#endif
