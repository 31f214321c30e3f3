/* sleep(), usleep(), time_nanosleep() and time_sleep_until(). */
#ifndef SVC_SHIM_SLEEPS_H
#define SVC_SHIM_SLEEPS_H

void shim_sleeps_install(void);

#endif
