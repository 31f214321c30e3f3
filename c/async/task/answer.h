/* The first number in the parcel of a failed task. */
#ifndef SVC_SHIM_ANSWER_H
#define SVC_SHIM_ANSWER_H

typedef enum shim_answer_kind {
    /* An exception of its function: a TaskException. */
    SHIM_ANSWER_FAILURE = 0,
    /* A value that could not be sent: a TransferException. */
    SHIM_ANSWER_TRANSFER,
} shim_answer_kind;

#endif
