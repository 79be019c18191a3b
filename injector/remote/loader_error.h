/* Where the C library keeps a thread's message of a failed dlopen or dlsym until dlerror() is
 * called: our dlopen on a hijacked thread would discard it. */
#ifndef LIMPET_INJECTOR_REMOTE_LOADER_ERROR_H
#define LIMPET_INJECTOR_REMOTE_LOADER_ERROR_H

#include <stdint.h>

#include "injector/elf/modules.h"

/* The offset of glibc's __libc_dlerror_result (2.34) from the thread pointer: a pointer that is 0
 * if there is no message. Read from libc's table, where the dynamic linker has written it. 0:
 * unknown. */
int64_t limpet_loader_error_find(struct limpet_modules *modules);

#endif
