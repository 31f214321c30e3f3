/* What a jump leaves set behind it.
 *
 * A fatal error, the memory limit or the time limit leaves functions of PHP by a jump, and what they meant to put back
 * stays as it was. PHP puts most of it right when the next request starts; until then shutdown functions, output callbacks
 * and the write of the session run with it. This is done at the bottom of a request, where none of these functions can be
 * running: before its shutdown functions, and once more before extensions end it.
 *
 *   session   in_save_handler     handlers would be refused as recursive: a session's file would stay locked for ever
 *             set_handler         anybody could name the user's handlers in the directive
 *             session_status      a session that was not read would be written, empty
 *   standard  serialize_lock,     the session would be written with references to what somebody else had begun to write
 *             serialize, unserialize
 *   streams   user_stream_current_filename: the same name would be refused as recursive
 *   core      in_user_include     include of URLs would be refused
 *             in_error_log        nothing would be logged
 *   output    running             the next output would switch all of it off (shim_output_mend)
 *   engine    error_handling, exception_class: warnings would be thrown
 *             record_errors       errors would be kept for a class that is not being made any more
 *             in_autoload         the class would not be looked for again
 *             method caches       a method would run without the memory that it lacked (shim_callee_forget)
 *
 * What stays: flags of objects (generators that run, heaps and arrays that are being sorted, handles of curl in a
 * callback), which are no more than their objects; what soap keeps, which costs a request nothing but the message of its
 * next error. */
#include "compat.h"
#include "context/context.h"
#include "context/own_worker.h"
#include "jump/after_jump.h"
#include "jump/session.h"
#include "libc/libc.h"

#include <ext/standard/file.h>

DECLARE_LIBC(zend_objects_store_mark_destructed);

/* Before the jump: whoever ends a script so, PHP or a debugger in its place, first marks every object of the thread as
 * destructed. In a worker that serves they are the application's and other requests' too, whose destructors are to run. */
void ZEND_FASTCALL zend_objects_store_mark_destructed(zend_objects_store *objects)
{
    if (shim_current == NULL || !shim_own_worker.serving) {
        LIBC(zend_objects_store_mark_destructed)(objects);
    }
}

/* Right after the jump: a callback that it has left is not called again, and what is in its buffer goes out as it is. */
void shim_output_mend(void)
{
    if (OG(running) != NULL) {
        OG(running)->flags |= PHP_OUTPUT_HANDLER_DISABLED;
        OG(running) = NULL;
    }
}

void shim_error_handling_reset(void)
{
    EG(error_handling) = EH_NORMAL;
    EG(exception_class) = NULL;
    EG(record_errors) = false;
}

/* Before the jump: a call of a method notes in the caller's cache which one it has found, and only then allocates that
 * one's own cache. If it cannot, whoever makes the same call next would run the method without. */
void shim_callee_forget(void)
{
    const zend_execute_data *frame = EG(current_execute_data);
    if (frame == NULL || frame->func == NULL || !ZEND_USER_CODE(frame->func->type) || frame->opline == NULL) {
        return;
    }
    const zend_op *call = frame->opline;
    const bool is_method = call->opcode == ZEND_INIT_METHOD_CALL || call->opcode == ZEND_INIT_STATIC_METHOD_CALL;
    if (is_method && call->op2_type == IS_CONST && frame->run_time_cache != NULL) {
        void **slots = (void **)((char *)frame->run_time_cache + call->result.num);
        slots[0] = NULL;
        slots[1] = NULL;
    }
}

void shim_after_jump(void)
{
    BG(serialize_lock) = 0;
    memset(&BG(serialize), 0, sizeof(BG(serialize)));
    memset(&BG(unserialize), 0, sizeof(BG(unserialize)));
    FG(user_stream_current_filename) = NULL;
    PG(in_user_include) = false;
    PG(in_error_log) = false;
    shim_error_handling_reset();
    if (EG(in_autoload) != NULL) {
        zend_hash_clean(EG(in_autoload));
    }
    shim_session_after_jump();
}
