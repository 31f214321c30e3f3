/* The number of PHP's mutexes that this thread holds, and the release, after a bailout, of those beyond that number. */
#ifndef SVC_SHIM_MUTEXES_H
#define SVC_SHIM_MUTEXES_H

unsigned shim_mutexes_held(void);
void shim_mutexes_return_to(unsigned count);

#endif
