/* Where the C library keeps a thread's message of a failed dlopen or dlsym, until dlerror() is
 * asked for it: our dlopen on a hijacked thread would take it away. */
#ifndef LIMPET_INJECTOR_REMOTE_LOADER_ERROR_H
#define LIMPET_INJECTOR_REMOTE_LOADER_ERROR_H

#include <stdint.h>

#include "injector/image/modules.h"

/* The distance from a thread pointer of glibc's __libc_dlerror_result (2.34), a pointer that is 0
 * while there is none: as the dynamic linker has written it into libc's table. 0: not known. */
int64_t limpet_loader_error_find(struct limpet_modules *modules);

#endif
