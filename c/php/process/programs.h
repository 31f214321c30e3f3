/* Programs that a request starts. */
#ifndef SVC_SHIM_PROGRAMS_H
#define SVC_SHIM_PROGRAMS_H

void shim_programs_install(void);

#endif
