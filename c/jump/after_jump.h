/* What a jump leaves set behind it. */
#ifndef SVC_SHIM_AFTER_JUMP_H
#define SVC_SHIM_AFTER_JUMP_H

/* Puts it right. May run a session's handlers, and jump; to be called at the bottom of a request, whether or not there
 * was a jump. */
void shim_after_jump(void);
/* Errors are reported as they are by default. */
void shim_error_handling_reset(void);
/* Before a jump: the caller forgets the method that it was about to call. */
void shim_callee_forget(void);
void shim_output_mend(void);

#endif
