/* Hijacks a thread of the target for one call of the boot stub. */
#ifndef LIMPET_INJECTOR_REMOTE_HIJACK_H
#define LIMPET_INJECTOR_REMOTE_HIJACK_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/wire.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/tracee.h"
#include "injector/ptrace/wait.h"
#include "injector/remote/safepoint.h"
#include "injector/remote/segment.h"

struct limpet_hijack;

/* Whether a mapping is, or begins with, shared memory of a stub, or is of a file without a size, as
 * it is made: only a target has that, also if it is a limpet itself. */
bool limpet_hijack_is_stub(pid_t pid, const struct limpet_map *map);

/* What is mapped for a call, one part after the other, so that the kernel's list of mappings tells
 * what belongs together, whenever limpet dies: the agent, if it is mapped; the stub, which is its
 * code, if that is not the agent's, its stack, its argument and, for dlopen, the agent's file; the
 * agent's thunks; what is shared with it. Stack, argument, file and what is shared are of the
 * shared file, where they have the same offsets as here. What is not needed is empty. */
struct limpet_hijack_area {
	uint64_t start, bytes;                          /* start 0: nothing is mapped */
	uint64_t code, stack, boot, image, thunks, shm; /* offsets; the agent is at 0 */
};

/* What an attach leaves for later calls of its agent: its area, in which these need to map
 * nothing. Zeros: none. */
struct limpet_hijack_room {
	struct limpet_hijack_area area;
	struct limpet_boot *boot; /* as limpet has it mapped */
};
void limpet_hijack_room_done(struct limpet_hijack_room *room);

struct limpet_hijack_setup {
	const struct limpet_target *target;
	struct limpet_hijack_room *room; /* of the agent; an attach fills it in */
	/* Points to the owner's pointer: `idle` may replace the object. */
	struct limpet_safepoint *const *safepoint;
	const struct limpet_tracee_gadgets *gadgets;
	/* The call takes no lock of the program and calls none of its functions: any place is safe,
	 * even inside its allocator or loader. */
	bool anywhere;
	/* The call needs no memory, and waits for no lock without a limit: a thread inside an
	 * allocator will do if there is no better one. */
	bool may_be_in_malloc;
	bool maps_nothing; /* only system calls are made on it: limpet_hijack_map() is not called */
	bool maps_areas;   /* limpet_hijack_map_hook_area() is called */
	uint64_t lock_room;   /* limpet_proc_lock_room(), for an attach */
	pid_t only;           /* hijack this thread; 0: the best one */
	uint64_t loader_lock; /* limpet_loader_lock_find(): nobody is hijacked while it is held */
	/* Whether a thread that is stopped and traced may be made to make system calls; NULL: any
	 * may. */
	bool (*may_call)(void *context, pid_t tid);
	void *may_call_context;
	struct limpet_wait wait;
};

/* Finds a thread at a safe point and hijacks it. Tries sleeping threads first, those whose sleep
 * cannot be restarted last, and never one whose call would be cut short (stop_effect.h). If there
 * is none, releases the threads, pauses and tries again until the deadline (-EBUSY). -EPERM: none
 * of them may make system calls for us. */
int limpet_hijack_find(const struct limpet_hijack_setup *setup, struct limpet_hijack **ret,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
/* Hijacks a thread that is stopped and known to be safe; on failure its process is killed. */
int limpet_hijack_given(const struct limpet_hijack_setup *setup, struct limpet_tracee *tracee,
			struct limpet_hijack **ret, struct limpet_err *err) LIMPET_MUST_CHECK;
const struct limpet_tracee *limpet_hijack_tracee(const struct limpet_hijack *hijack);
/* Its tid in the target's pid namespace, as read shortly before it was stopped; 0: unknown. */
pid_t limpet_hijack_ns_tid(const struct limpet_hijack *hijack);
unsigned limpet_hijack_attempts(const struct limpet_hijack *hijack);

enum limpet_hijack_for {
	LIMPET_HIJACK_CALL,  /* of an agent that is there: in its room, if there is one */
	LIMPET_HIJACK_MAP,   /* to attach: the agent, too */
	LIMPET_HIJACK_DLOPEN /* the same, by the target's dlopen */
};
/* Makes in the target what a call needs, and nothing in the program's table of descriptors.
 * `segment`: the memory to share with the agent, to attach; else NULL. -EAGAIN: the target may make
 * no thread now. */
int limpet_hijack_map(struct limpet_hijack *hijack, enum limpet_hijack_for purpose,
		      struct limpet_segment *segment, struct limpet_err *err) LIMPET_MUST_CHECK;
/* After limpet_hijack_map(): maps memory of the image, executable and still empty, at `address`;
 * -EEXIST: something is mapped there. It stays until it is unmapped. */
int limpet_hijack_map_hook_area(struct limpet_hijack *hijack, uint64_t address,
				uint64_t bytes) LIMPET_MUST_CHECK;
/* Makes limpet_hijack_finish() unmap it at the end: if limpet dies in between, the mapping can be
 * recognized by its name. */
void limpet_hijack_unmap_last(struct limpet_hijack *hijack, uint64_t address, uint64_t bytes);
/* Runs the stub; `boot` is copied to the target, and back with its results. `segment`: as mapped;
 * or that of the agent which is called, and which must outlive the call: `boot->life` is where the
 * target has the collector's word. Else NULL, and `boot->life` 0. -ETIMEDOUT: it did not finish in
 * time, and was left to resume by itself. */
int limpet_hijack_call(struct limpet_hijack *hijack, struct limpet_boot *boot,
		       const struct limpet_segment *segment,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
/* Makes a system call on the hijacked thread: returns its result, or a local failure as -errno. */
int64_t limpet_hijack_syscall(struct limpet_hijack *hijack, long number, uint64_t a, uint64_t b);
/* Removes what was made, but for what an attach leaves, which goes when the agent is unloaded;
 * restores and releases the thread, and frees. */
int limpet_hijack_finish(struct limpet_hijack *hijack);

#endif
