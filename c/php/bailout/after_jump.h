/* The flags that a bailout leaves set. */
#ifndef SVC_SHIM_AFTER_JUMP_H
#define SVC_SHIM_AFTER_JUMP_H

/* Resets the flags. May run session handlers and bail out. Call at the bottom of a request, whether or not there was a
 * bailout. */
void shim_after_jump(void);
/* Resets error handling to the default. */
void shim_error_handling_reset(void);
/* Before a bailout: makes the caller forget the method that it was about to call. */
void shim_callee_forget(void);
void shim_output_mend(void);

#endif
