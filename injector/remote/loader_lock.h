/* The dynamic linker's locks, examined from outside.
 *
 * A thread that is hijacked to call dlopen while another thread holds them waits for that thread,
 * and may be the one that the other waits for: a library's constructor often starts threads or asks
 * a service. So limpet waits until a lock is free before it hijacks a thread. */
#ifndef LIMPET_INJECTOR_REMOTE_LOADER_LOCK_H
#define LIMPET_INJECTOR_REMOTE_LOADER_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/wire.h"
#include "injector/elf/modules.h"

struct limpet_tracer;

/* Returns the address in the target of glibc's _dl_load_lock, which _dl_load_write_lock follows; 0:
 * not found (musl, an unknown glibc), and then nothing is known about it. They have no symbols:
 * they are recognized by their form in _rtld_global, which has one. */
uint64_t limpet_loader_lock_find(struct limpet_modules *modules);
/* Finds what the agent's loader hooks use; leaves out what does not look as expected. */
void limpet_loader_describe(struct limpet_modules *modules, struct limpet_loader *ret);
/* Whether a thread holds the first of them now, or `both`: one of them. False for address 0. */
bool limpet_loader_lock_is_held(pid_t pid, uint64_t address, bool both);
/* The thread that holds the first of them or, if nobody does, the second, by its tid in the
 * target's pid namespace; 0: nobody, or unknown. */
pid_t limpet_loader_lock_owner(pid_t pid, uint64_t address);
/* In a process that was forked while another thread of its parent was in dl_iterate_phdr, dlopen or
 * dlclose (called by us, that is), glibc leaves the second lock held by a thread that the process
 * does not have: the process would wait for it forever. Releases the lock in that case. 1: done, 0:
 * nothing to do, or -errno. */
int limpet_loader_lock_free_orphaned(struct limpet_tracer *tracer, pid_t pid, uint64_t address);

#endif
