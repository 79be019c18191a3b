#include "injector/loader_lock.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "injector/memory.h"
#include "injector/proc.h"
#include "injector/tracee.h"

#define MAX_GLOBAL_BYTES 65536u
#define RECURSIVE 1u /* PTHREAD_MUTEX_RECURSIVE_NP, which the loader's locks are made with */
#define LOCKS 2u

/* glibc's pthread_mutex_t on 64-bit machines: sysdeps/nptl/bits/struct_mutex.h */
struct mutex {
	int32_t lock;
	uint32_t count;
	int32_t owner;
	uint32_t users, kind;
	int16_t spins, elision;
	uint64_t previous, next;
};

/* Held or not, and in the middle of being taken. */
static bool is_loader_lock(const struct mutex *mutex)
{
	return mutex->kind == RECURSIVE && mutex->lock >= 0 && mutex->lock <= 2 &&
	       mutex->owner >= 0 && mutex->users <= 1 && !mutex->spins && !mutex->elision &&
	       !mutex->previous && !mutex->next;
}

static uint64_t find_pair(const uint8_t *bytes, uint64_t size)
{
	for (uint64_t at = 0; at + LOCKS * sizeof(struct mutex) <= size; at += sizeof(uint64_t)) {
		struct mutex locks[LOCKS];

		memcpy(locks, bytes + at, sizeof(locks));
		if (is_loader_lock(&locks[0]) && is_loader_lock(&locks[1]))
			return at;
	}
	return 0;
}

uint64_t limpet_loader_lock_find(struct limpet_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		LIMPET_FREE uint8_t *bytes = NULL;
		Elf64_Sym symbol;
		uint64_t address, found;

		if (!module->loader)
			continue;
		address = limpet_module_symbol(modules->pid, module, "_rtld_global", &symbol);
		if (!address || symbol.st_size > MAX_GLOBAL_BYTES)
			continue;
		bytes = malloc(symbol.st_size);
		if (!bytes || limpet_memory_read(modules->pid, address, bytes, symbol.st_size) < 0)
			continue;
		found = find_pair(bytes, symbol.st_size);
		if (found)
			return address + found;
	}
	return 0;
}

uint64_t limpet_loader_lock_owner(uint64_t address)
{
	return address ? address + offsetof(struct mutex, owner) : 0;
}

bool limpet_loader_lock_is_held(pid_t pid, uint64_t address)
{
	struct mutex locks[LOCKS];

	return address && limpet_memory_read(pid, address, locks, sizeof(locks)) == 0 &&
	       (locks[0].owner || locks[1].owner);
}

/* Only a process with one thread is told that simply from one that is at work. */
static bool is_orphaned(pid_t pid, const struct mutex *mutex)
{
	struct limpet_proc_status status;
	LIMPET_FREE pid_t *tids = NULL;

	return mutex->owner > 0 && limpet_proc_tasks(pid, &tids) == 1 &&
	       limpet_proc_status_read(pid, &status) == 0 && mutex->owner != status.ns_pid;
}

int limpet_loader_lock_free_orphaned(pid_t pid, uint64_t address)
{
	const uint64_t patience_ns = 100000000u;
	const uint64_t second = address + sizeof(struct mutex);
	struct limpet_tracee *tracee;
	struct mutex mutex;
	int error;

	if (!address || limpet_memory_read(pid, second, &mutex, sizeof(mutex)) < 0 ||
	    !is_orphaned(pid, &mutex))
		return 0;
	/* One that waits for it looks at it again when it goes on. */
	error = limpet_tracee_stop(pid, pid, limpet_monotonic_ns() + patience_ns, &tracee);
	if (error)
		return error;
	error = limpet_memory_read(pid, second, &mutex, sizeof(mutex));
	if (!error && is_loader_lock(&mutex) && is_orphaned(pid, &mutex)) {
		memset(&mutex, 0, offsetof(struct mutex, kind));
		error = limpet_memory_write(pid, second, &mutex, offsetof(struct mutex, kind)) ?: 1;
	}
	limpet_tracee_release(tracee);
	return error;
}
