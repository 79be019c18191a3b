#include "injector/remote/loader_lock.h"

#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/loader_mutex.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/tracee.h"

#define MAX_GLOBAL_BYTES 65536u
#define RECURSIVE 1u /* PTHREAD_MUTEX_RECURSIVE_NP, the type of the loader's locks */
#define LOCKS 2u

/* Held, free, or just being taken. */
static bool is_loader_lock(const struct limpet_loader_mutex *mutex)
{
	return mutex->kind == RECURSIVE && mutex->lock >= 0 && mutex->lock <= 2 &&
	       mutex->owner >= 0 && mutex->users <= 1 && !mutex->spins && !mutex->elision &&
	       !mutex->previous && !mutex->next;
}

static uint64_t find_pair(const uint8_t *bytes, uint64_t size)
{
	const uint64_t both = LOCKS * sizeof(struct limpet_loader_mutex);

	for (uint64_t at = 0; at + both <= size; at += sizeof(uint64_t)) {
		struct limpet_loader_mutex locks[LOCKS];

		memcpy(locks, bytes + at, sizeof(locks));
		if (is_loader_lock(&locks[0]) && is_loader_lock(&locks[1]))
			return at;
	}
	return 0;
}

/* Returns a copy of _rtld_global, to be freed, and its address; or NULL. */
static uint8_t *copy_global(struct limpet_modules *modules, uint64_t *ret_address,
			    uint64_t *ret_bytes)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		LIMPET_FREE uint8_t *bytes = NULL;
		Elf64_Sym symbol;
		uint64_t address;

		if (!module->loader)
			continue;
		address = limpet_module_symbol(modules->target, module, "_rtld_global", &symbol);
		if (!address || symbol.st_size > MAX_GLOBAL_BYTES)
			continue;
		bytes = malloc(symbol.st_size);
		if (!bytes ||
		    limpet_memory_read(modules->target->pid, address, bytes, symbol.st_size) < 0)
			continue;
		*ret_address = address;
		*ret_bytes = symbol.st_size;
		return LIMPET_TAKE(bytes);
	}
	return NULL;
}

uint64_t limpet_loader_lock_find(struct limpet_modules *modules)
{
	uint64_t address, size, found;
	LIMPET_FREE uint8_t *bytes = copy_global(modules, &address, &size);

	found = bytes ? find_pair(bytes, size) : 0;
	return found ? address + found : 0;
}

static uint64_t word_at(const uint8_t *bytes, uint64_t at)
{
	uint64_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

/* Whether all fields have plausible values; `lock` as in find_pair(). */
static bool find_counts(const uint8_t *bytes, uint64_t size, uint64_t lock, uint64_t first_map,
			struct limpet_loader *ret)
{
	const uint64_t one = sizeof(struct limpet_loader_mutex), too_many = 1u << 30;
	uint64_t count_at = lock - sizeof(uint64_t), adds_at = lock + LOCKS * one, loaded = 0;
	struct limpet_loader_mutex third;

	if (lock < sizeof(uint64_t) || count_at % LIMPET_LOADER_SPACES ||
	    adds_at + one + sizeof(uint64_t) > size)
		return false;
	memcpy(&third, bytes + adds_at, sizeof(third));
	if (is_loader_lock(&third))
		adds_at += one;
	ret->spaces = 0;
	ret->space_bytes = count_at / LIMPET_LOADER_SPACES;
	ret->space_count = count_at;
	ret->adds = adds_at;
	if (ret->space_bytes % sizeof(uint64_t) ||
	    ret->space_bytes < LIMPET_LOADER_SPACE_COUNT + sizeof(uint64_t) ||
	    word_at(bytes, 0) != first_map || !word_at(bytes, count_at) ||
	    word_at(bytes, count_at) > LIMPET_LOADER_SPACES)
		return false;
	for (uint64_t i = 0; i < word_at(bytes, count_at); i++)
		loaded +=
			(uint32_t)word_at(bytes, i * ret->space_bytes + LIMPET_LOADER_SPACE_COUNT);
	return loaded && word_at(bytes, adds_at) >= loaded && word_at(bytes, adds_at) < too_many;
}

void limpet_loader_describe(struct limpet_modules *modules, struct limpet_loader *ret)
{
	struct limpet_loader found = {.is_musl = 0};
	uint64_t address, size, lock;
	LIMPET_FREE uint8_t *bytes = copy_global(modules, &address, &size);
	struct r_debug debug;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < modules->count; i++) {
		ret->is_musl |= modules->list[i].libc_loader;
		if (modules->list[i].executable)
			found.program_head = modules->list[i].start;
	}
	lock = bytes ? find_pair(bytes, size) : 0;
	if (ret->is_musl || !lock || !modules->r_debug || !found.program_head ||
	    limpet_memory_read(modules->target->pid, modules->r_debug, &debug, sizeof(debug)) < 0 ||
	    !find_counts(bytes, size, lock, (uint64_t)(uintptr_t)debug.r_map, &found))
		return;
	found.lock = address + lock;
	found.adds += address;
	found.spaces += address;
	found.space_count += address;
	*ret = found;
}

bool limpet_loader_lock_is_held(pid_t pid, uint64_t address, bool both)
{
	struct limpet_loader_mutex locks[LOCKS];

	return address && limpet_memory_read(pid, address, locks, sizeof(locks)) == 0 &&
	       (locks[0].owner || (both && locks[1].owner));
}

pid_t limpet_loader_lock_owner(pid_t pid, uint64_t address)
{
	struct limpet_loader_mutex locks[LOCKS];

	if (!address || limpet_memory_read(pid, address, locks, sizeof(locks)) < 0)
		return 0;
	return locks[0].owner ?: locks[1].owner;
}

/* Only in a process with one thread can this be told from a lock in use without more effort. */
static bool is_orphaned(pid_t pid, const struct limpet_loader_mutex *mutex)
{
	struct limpet_proc_status status;
	LIMPET_FREE pid_t *tids = NULL;

	return mutex->owner > 0 && limpet_proc_tasks(pid, &tids) == 1 &&
	       limpet_proc_status_read(pid, &status) == 0 && mutex->owner != status.ns_pid;
}

int limpet_loader_lock_free_orphaned(struct limpet_tracer *tracer, pid_t pid, uint64_t address)
{
	const uint64_t patience_ns = 100000000u;
	const uint64_t second = address + sizeof(struct limpet_loader_mutex);
	struct limpet_tracee *tracee;
	struct limpet_loader_mutex mutex;
	int error;

	if (!address || limpet_memory_read(pid, second, &mutex, sizeof(mutex)) < 0 ||
	    !is_orphaned(pid, &mutex))
		return 0;
	/* A thread that waits for the lock checks it again when it resumes. */
	error = limpet_tracee_stop(tracer, pid, pid, limpet_monotonic_ns() + patience_ns, &tracee);
	if (error)
		return error;
	error = limpet_memory_read(pid, second, &mutex, sizeof(mutex));
	if (!error && is_loader_lock(&mutex) && is_orphaned(pid, &mutex)) {
		memset(&mutex, 0, offsetof(struct limpet_loader_mutex, kind));
		error = limpet_memory_write(pid, second, &mutex,
					    offsetof(struct limpet_loader_mutex, kind))
				?: 1;
	}
	limpet_tracee_release(tracee);
	return error;
}
