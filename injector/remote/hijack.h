/* Hijacking a thread of the target for one call of the boot stub. */
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

struct limpet_hijack_setup {
	const struct limpet_target *target;
	/* The owner's pointer to it: `idle` may put another in its place. */
	struct limpet_safepoint *const *safepoint;
	const struct limpet_tracee_gadgets *gadgets;
	/* What is to be called takes no lock of the program's and is none of its functions: any
	 * place will do, also in the middle of its allocator or loader. */
	bool anywhere;
	const struct limpet_maps *maps; /* what was there before, maybe some time ago */
	uint64_t room_bytes;  /* the largest piece that will be mapped there; 0: nothing stays */
	pid_t only;           /* this thread; 0: whichever is best */
	uint64_t loader_lock; /* limpet_loader_lock_find(): while it is held nobody is hijacked */
	/* Whether a thread that stands still and is traced may be made to make system calls; NULL:
	 * any may. */
	bool (*may_call)(void *context, pid_t tid);
	void *may_call_context;
	struct limpet_wait wait;
};

/* Finds a thread at a safe point and hijacks it: sleeping ones first, those last whose sleep cannot
 * be restarted, and none whose call would be cut short (stop_effect.h); otherwise lets go, backs
 * off and tries again until the deadline (-EBUSY). -EPERM: none of them may make system calls for
 * us. */
int limpet_hijack_find(const struct limpet_hijack_setup *setup, struct limpet_hijack **ret,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
/* Hijacks a thread that is stopped and known to be safe; on failure its process is ended. */
int limpet_hijack_given(const struct limpet_hijack_setup *setup, struct limpet_tracee *tracee,
			struct limpet_hijack **ret, struct limpet_err *err) LIMPET_MUST_CHECK;
const struct limpet_tracee *limpet_hijack_tracee(const struct limpet_hijack *hijack);
unsigned limpet_hijack_attempts(const struct limpet_hijack *hijack);

/* Makes the image and the mapping of the stub in the target. -EBADF or -ENODEV, from here
 * and from limpet_hijack_call(): the program closed a descriptor that was made here, or put another
 * file in its place; nothing has been called. */
int limpet_hijack_map(struct limpet_hijack *hijack, struct limpet_err *err) LIMPET_MUST_CHECK;
/* After that: the kernel puts what is mapped where a mapping of the program's may grow into
 * (growing.h). What was made here lies elsewhere. */
bool limpet_hijack_below_growing(const struct limpet_hijack *hijack);
/* After that: memory of the image, executable and for now empty, at `address`; -EEXIST: something
 * is there. It stays until it is unmapped. */
int limpet_hijack_map_near(struct limpet_hijack *hijack, uint64_t address,
			   uint64_t bytes) LIMPET_MUST_CHECK;
/* Has limpet_hijack_finish unmap it: once the channel is closed, for a limpet that dies between the
 * two leaves a mapping that can be told by its name. */
void limpet_hijack_unmap_last(struct limpet_hijack *hijack, uint64_t address, uint64_t bytes);
/* After limpet_hijack_call: our end of the channel. From here on it belongs to the caller, and the
 * other end stays in the target. */
int limpet_hijack_take_channel(struct limpet_hijack *hijack);
/* Runs the stub; `boot` goes there and comes back with its answers. `segment`: memory to share with
 * the agent, or NULL. -ETIMEDOUT: it did not finish in time and was left to find its way home by
 * itself. */
int limpet_hijack_call(struct limpet_hijack *hijack, struct limpet_boot *boot,
		       const struct limpet_segment *segment,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
/* A system call by the hijacked thread: its answer, or a local failure as -errno. */
int64_t limpet_hijack_syscall(struct limpet_hijack *hijack, long number, uint64_t a, uint64_t b);
/* Takes the mapping and what else was made away again, puts the thread back, lets it go, frees. */
int limpet_hijack_finish(struct limpet_hijack *hijack);

#endif
