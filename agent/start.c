/* Start and end of the agent. The boot stub calls every entry here on a thread that the injector
 * holds at a safe point. */
#include "agent/agent.h"
#include "agent/finder.h"
#include "agent/hook_paths.h"
#include "agent/patch.h"
#include "agent/record.h"
#include "agent/stack_cache.h"

#include <linux/fcntl.h>
#include <linux/mman.h>
#include <stddef.h>

#define ERROR_MEMORY 12   /* ENOMEM */
#define ERROR_DEADLOCK 35 /* EDEADLK: to wait for the linker's lock could be one */
#define ERROR_PROTOCOL 71 /* EPROTO */

static struct limpet_control nothing;
struct limpet_control *limpet_control = &nothing;
struct limpet_hook limpet_hooks[LIMPET_MAX_HOOKS];
/* The offsets that vectors.S uses. */
struct limpet_vectors limpet_vectors;
_Static_assert(offsetof(struct limpet_vectors, mask) == 0, "VECTORS_MASK");
_Static_assert(offsetof(struct limpet_vectors, bytes) == 4, "VECTORS_BYTES");
_Static_assert(offsetof(struct limpet_vectors, by_hand) == 8, "VECTORS_BY_HAND");

static uint64_t shm_bytes, scratch_bytes, page_bytes;

static int entry_start(struct limpet_start *start);
static int entry_detach(void);
static int entry_release(void);
static int entry_rescan(void);

__attribute__((visibility("default"))) struct limpet_agent_info limpet_agent_info = {
	.magic = LIMPET_INFO_MAGIC,
	.abi = LIMPET_AGENT_ABI,
	.bytes = sizeof(struct limpet_agent_info),
	.state = LIMPET_AGENT_LOADED,
	.channel = (uint64_t)-1,
	/* Addresses, relocated by the dynamic linker. */
	.start = (uint64_t)(uintptr_t)entry_start,
	.detach = (uint64_t)(uintptr_t)entry_detach,
	.release = (uint64_t)(uintptr_t)entry_release,
	.rescan = (uint64_t)(uintptr_t)entry_rescan,
	.hooks = (uint64_t)(uintptr_t)limpet_hooks,
	.thunk_bytes = LIMPET_THUNK_BYTES,
};

/* Of all that is mapped here, and by the stub, nothing is listed as readable: see LIMPET_PROT_DATA.
 */
static void *map_at(void *address, uint64_t bytes, int protection, int flags, int fd)
{
	long answer =
		limpet_syscall6(SYS_mmap, (long)address, (long)bytes, protection, flags, fd, 0);

	return answer < 0 && answer > -4096 ? NULL : (void *)answer;
}

static void unmap(const void *address, uint64_t bytes)
{
	if (address && bytes)
		limpet_syscall3(SYS_munmap, (long)address, (long)bytes, 0);
}

/* Under mlockall(MCL_FUTURE) the kernel populates and locks new mappings, unless they are
 * inaccessible: this one is made accessible after it is unlocked. */
static void *map_unlocked(void *address, uint64_t bytes, int protection, int flags, int fd)
{
	void *memory = map_at(address, bytes, PROT_NONE, flags, fd);

	if (!memory)
		return NULL;
	limpet_syscall3(SYS_munlock, (long)memory, (long)bytes, 0);
	if (limpet_syscall3(SYS_mprotect, (long)memory, (long)bytes, protection) == 0)
		return memory;
	/* Else it is a part of what is unmapped as a whole. */
	if (!(flags & MAP_FIXED))
		unmap(memory, bytes);
	return NULL;
}

static void *map_large(const struct limpet_start *start, void *address, uint64_t bytes,
		       int protection, int flags)
{
	return start->unlock ? map_unlocked(address, bytes, protection, flags, -1)
			     : map_at(address, bytes, protection, flags, -1);
}

/* Without access, memory is neither populated nor locked (see map_unlocked). */
static bool open_memory(const struct limpet_start *start, const void *at, uint64_t bytes)
{
	if (start->unlock)
		limpet_syscall3(SYS_munlock, (long)at, (long)bytes, 0);
	return limpet_syscall3(SYS_mprotect, (long)at, (long)bytes,
			       LIMPET_PROT_DATA | start->readable) == 0;
}

/* What the injector had mapped, in a file that it shares. */
static int adopt_memory(const struct limpet_start *start)
{
	shm_bytes = start->shm_bytes;
	limpet_unwind_arena_bytes = start->unwind_bytes;
	limpet_shm = (struct limpet_shm *)(uintptr_t)start->shm;
	limpet_unwind_arena = (const uint8_t *)limpet_shm + shm_bytes;
	if (!open_memory(start, limpet_shm, shm_bytes + limpet_unwind_arena_bytes))
		return -ERROR_MEMORY;
	if (limpet_shm->magic != LIMPET_SHM_MAGIC || limpet_shm->abi != LIMPET_AGENT_ABI ||
	    limpet_shm->nonce != start->nonce)
		return -ERROR_PROTOCOL;
	return 0;
}

/* Private memory in the place of shared memory. */
static bool map_over(const struct limpet_start *start, uint64_t offset, uint64_t bytes, bool grows)
{
	const int protection = (int)(LIMPET_PROT_DATA | start->readable);
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED |
			  (grows ? MAP_GROWSDOWN : 0);

	return map_large(start, limpet_shm_at(offset), bytes, protection, flags);
}

/* See LIMPET_WINDOW_BYTES. No slot leads here yet, and the agent cannot be removed yet: a child
 * that is forked before the pages are there does not miss them. False: a page could not be
 * replaced, and may be missing now. Where only the advice is refused, a child writes to its
 * parent's memory. */
static bool make_windows(const struct limpet_start *start)
{
	uint64_t at = limpet_shm->layout.threads_offset, next;

	if (shm_bytes - at > LIMPET_WINDOWS_MAX_BYTES)
		return true;
	/* All at once: each call waits for the lock on the program's mappings. */
	if (limpet_syscall3(SYS_madvise, (long)limpet_shm_at(at), (long)(shm_bytes - at),
			    MADV_DONTFORK) < 0)
		return true;
	for (; at < shm_bytes; at = next) {
		next = shm_bytes - at < LIMPET_WINDOW_BYTES ? shm_bytes : at + LIMPET_WINDOW_BYTES;
		if (!map_over(start, next - LIMPET_WINDOW_PAGE, LIMPET_WINDOW_PAGE, true))
			return false;
	}
	return true;
}

/* The kernel keeps a distance below memory that grows, unless what is below grows as well: so the
 * states' own memory does, below the first window. */
static int map_own(const struct limpet_start *start)
{
	const uint64_t at = limpet_shm->layout.threads_offset - LIMPET_OWN_BYTES;

	if (start->windows && map_over(start, at, LIMPET_OWN_BYTES, true))
		return make_windows(start) ? 0 : -ERROR_MEMORY;
	return map_over(start, at, LIMPET_OWN_BYTES, false) ? 0 : -ERROR_MEMORY;
}

/* Where the kernel would place it by itself, memory of the program may have to grow. */
static int map_private(const struct limpet_start *start)
{
	struct limpet_control *control;
	uint64_t rooms_bytes, at;
	int private = MAP_PRIVATE | MAP_ANONYMOUS;
	long error = -ERROR_MEMORY;

	rooms_bytes = limpet_shm->layout.thread_count * sizeof(struct limpet_scratch) +
		      (uint64_t)limpet_shm->layout.room_pages * LIMPET_SCRATCH_BYTES;
	scratch_bytes = rooms_bytes + LIMPET_PRIVATE_TABLES_BYTES;
	at = start->private_end - scratch_bytes;
	limpet_hot.scratch =
		map_large(start, (void *)(uintptr_t)at, scratch_bytes,
			  (int)(LIMPET_PROT_DATA | start->readable), private | MAP_NORESERVE);
	at -= page_bytes;
	control = map_at((void *)(uintptr_t)at, page_bytes,
			 (int)(LIMPET_PROT_DATA | start->readable), private, -1);
	if (limpet_hot.scratch && control)
		error = limpet_syscall3(SYS_madvise, (long)control, (long)page_bytes,
					MADV_WIPEONFORK);
	if (error < 0) {
		unmap(control, page_bytes);
		return (int)error;
	}
	limpet_hot.rules =
		(struct limpet_walk_cache_entry *)(void *)(limpet_hot.scratch + rooms_bytes);
	limpet_hot.order =
		(uint32_t *)(void *)(limpet_hot.scratch + rooms_bytes + LIMPET_RULE_CACHE_BYTES);
	control->alive = 1;
	__atomic_store_n(&limpet_control, control, __ATOMIC_RELEASE);
	return 0;
}

static int start_all(struct limpet_start *start)
{
	int error;

	if (start->abi != LIMPET_AGENT_ABI || start->bytes != sizeof(*start) ||
	    limpet_agent_info.state != LIMPET_AGENT_LOADED)
		return -ERROR_PROTOCOL;
	page_bytes = start->page_bytes;
	limpet_agent_info.nonce = start->nonce;
	limpet_vectors = start->vectors;
	error = adopt_memory(start);
	if (!error)
		error = map_own(start);
	if (!error)
		error = map_private(start);
	if (error)
		return error;
	limpet_agent_info.shm = (uint64_t)(uintptr_t)limpet_shm;
	limpet_agent_info.scratch = (uint64_t)(uintptr_t)limpet_hot.scratch;
	limpet_record_configure();
	for (uint32_t i = LIMPET_FIRST_HOOK; i < start->hook_count && i < LIMPET_MAX_HOOKS; i++)
		limpet_hook_set(i, &start->hooks[i]);
	limpet_patch_configure(start);
	limpet_finder_configure(start);
	start->control_page = (uint64_t)(uintptr_t)limpet_control;
	if (!limpet_patch_begin())
		return -ERROR_DEADLOCK;
	/* Originals are set before the first slot leads here, and hooks record only once the
	 * injector has written to the control page, when all planned slots are patched. With the
	 * handle set, the agent can be removed, also from a child that is forked from here on. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	limpet_agent_info.handle = start->handle;
	limpet_agent_info.restores = start->method != LIMPET_METHOD_OUTSIDE;
	limpet_agent_info.map_bytes = start->map_bytes;
	limpet_agent_info.map = start->map;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	start->patched = (uint32_t)limpet_patch_planned();
	limpet_patch_end();
	limpet_agent_info.state = LIMPET_AGENT_ACTIVE;
	if (start->method != LIMPET_METHOD_OUTSIDE)
		start->patched += (uint32_t)limpet_patch_new_modules();
	return 0;
}

static void release_private(void)
{
	struct limpet_control *control = limpet_control;

	/* Also those that a thread in a loader hook has added meanwhile. */
	limpet_hook_pass_all(true, true);
	/* First: the agent in a child that is forked meanwhile must not be used any more. */
	limpet_agent_info.state = LIMPET_AGENT_RELEASED;
	limpet_agent_info.shm = 0;
	limpet_agent_info.scratch = 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	limpet_control = &nothing;
	if (control != &nothing)
		unmap(control, page_bytes);
	unmap(limpet_hot.scratch, scratch_bytes);
	limpet_hot.scratch = NULL;
	limpet_hot.order = NULL;
}

static int entry_start(struct limpet_start *start)
{
	start->result = start_all(start);
	/* The shared memory is unmapped together with the stub. */
	if (start->result)
		release_private();
	return start->result;
}

/* Until symbols and slots are restored, dlsym may return a thunk, and its hook is to see that. If
 * the injector has to restore some, it ends the loader's hooks itself (remote_patch.c). */
static int entry_detach(void)
{
	int answer;

	__atomic_store_n(&limpet_control->on, 0, __ATOMIC_SEQ_CST);
	limpet_agent_info.state = LIMPET_AGENT_PASSING;
	answer = limpet_shm ? limpet_patch_restore() : 0;
	limpet_hook_pass_all(!answer && limpet_agent_info.restores, false);
	return answer;
}

static int entry_release(void)
{
	release_private();
	unmap(limpet_unwind_arena, limpet_unwind_arena_bytes);
	unmap(limpet_shm, shm_bytes);
	limpet_shm = NULL;
	limpet_unwind_arena = NULL;
	return 0;
}

static int entry_rescan(void)
{
	if (limpet_agent_info.state != LIMPET_AGENT_ACTIVE)
		return 0;
	return limpet_patch_new_modules();
}
