/* The dynamic linker's locks, looked at from outside.
 *
 * Who is hijacked to call dlopen while another thread holds them waits for that thread, and may be
 * the one that it waits for: a library's constructor often starts threads or asks a service. So a
 * held lock is waited for before anybody is hijacked. */
#ifndef LIMPET_INJECTOR_REMOTE_LOADER_LOCK_H
#define LIMPET_INJECTOR_REMOTE_LOADER_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/wire.h"
#include "injector/image/modules.h"

/* Address in the target of glibc's _dl_load_lock, behind which _dl_load_write_lock follows; 0: not
 * found (musl, an unknown glibc), and then nothing is known of it. They have no symbols: they are
 * told by their form, in _rtld_global, which has one. */
uint64_t limpet_loader_lock_find(struct limpet_modules *modules);
/* What the agent's loader hooks go by; as much as looks as it has to. */
void limpet_loader_describe(struct limpet_modules *modules, struct limpet_loader *ret);
/* Whether a thread holds one of them at this moment. False for address 0. */
bool limpet_loader_lock_is_held(pid_t pid, uint64_t address);
/* In a process that was forked while another thread of its parent's was in dl_iterate_phdr, dlopen
 * or dlclose (for us, that is), glibc leaves the second of them held by a thread that the process
 * has not: it would wait for it for good. Lets go of it, if so. 1: done, 0: nothing to do,
 * or -errno. */
int limpet_loader_lock_free_orphaned(pid_t pid, uint64_t address);

#endif
