/* Counts PHP's mutexes that this thread holds and, after a bailout, releases those beyond a given number. */
#ifndef SVC_SHIM_MUTEXES_H
#define SVC_SHIM_MUTEXES_H

unsigned shim_mutexes_held(void);
void shim_mutexes_return_to(unsigned count);

#endif
