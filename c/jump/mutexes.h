/* How many of PHP's mutexes this thread holds; and gives back those beyond that number, after a jump. */
#ifndef SVC_SHIM_MUTEXES_H
#define SVC_SHIM_MUTEXES_H

unsigned shim_mutexes_held(void);
void shim_mutexes_return_to(unsigned count);

#endif
