/* The boot stub: loads, drives and unloads the agent from outside of it.
 *
 * This code runs on a thread that the injector holds, where it is in an agent that was mapped for
 * it, or in a mapping of its own. It refers to nothing but its argument and the stack in the
 * scratch memory. With a stub the thread executes a whole step (relocate or dlopen, start) at once
 * instead of stopping twice at each system call of the dynamic linker; if the injector dies, the
 * stub undoes what it can and resumes the thread. */
#include "agent/agent.h"

#include <elf.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <linux/mman.h>

#define BOOT __attribute__((section(".boot")))
#define EINVAL_VALUE 22
#define EPIPE_VALUE 32
#define ENOSPC_VALUE 28
#define ELIBACC_VALUE 79
#define NOEXEC_SEAL 8u /* MFD_NOEXEC_SEAL, Linux 6.3 */

typedef void *dlopen_fn(const char *path, int mode);
typedef int dlclose_fn(void *handle);
typedef char *dlerror_fn(void);
typedef int start_fn(struct limpet_start *start);
typedef int entry_fn(void);

static inline __attribute__((always_inline)) void keep_words(struct limpet_boot *boot)
{
	const char *words = NULL;

	if (boot->dlerror)
		words = ((dlerror_fn *)(uintptr_t)boot->dlerror)();
	for (unsigned i = 0; words && words[i] && i + 1 < sizeof(boot->error); i++) {
		boot->error[i] = words[i];
		boot->error[i + 1] = 0;
	}
}

/* Saves a pending message for the program's dlerror(): the next call into the loader would discard
 * it. */
static inline __attribute__((always_inline)) uint64_t set_message_aside(
	const struct limpet_boot *boot)
{
	uint64_t *message = (uint64_t *)(uintptr_t)boot->message, kept = 0;

	if (message) {
		kept = *message;
		*message = 0;
	}
	return kept;
}

/* A message of the agent's own call is pending only if the call failed. The first dlerror() returns
 * it, the second one frees it. */
static inline __attribute__((always_inline)) void restore_message(const struct limpet_boot *boot,
								  uint64_t kept)
{
	volatile uint64_t *message = (volatile uint64_t *)(uintptr_t)boot->message;

	if (!message)
		return;
	for (unsigned i = 0; i < 2 && *message && boot->dlerror; i++)
		((dlerror_fn *)(uintptr_t)boot->dlerror)();
	*message = kept;
}

static inline __attribute__((always_inline)) struct limpet_agent_info *info_of(
	const struct limpet_boot *boot)
{
	return (struct limpet_agent_info *)(uintptr_t)boot->info;
}

static inline __attribute__((always_inline)) uint32_t *life_of(const struct limpet_boot *boot)
{
	return (uint32_t *)(uintptr_t)boot->life;
}

/* Whether the injector lives, as far as the kernel has told, and still waits for the stub. */
static inline __attribute__((always_inline)) bool is_awaited(const struct limpet_boot *boot)
{
	return !(__atomic_load_n(life_of(boot), __ATOMIC_ACQUIRE) & LIMPET_COLLECTOR_DIED) &&
	       !__atomic_load_n(&boot->released, __ATOMIC_ACQUIRE);
}

/* Says that the stub has finished, and waits for an injector that will stop the thread here. The
 * kernel wakes it if the injector dies: the bit asks for that. */
static inline __attribute__((always_inline)) void wait_for_end(struct limpet_boot *boot)
{
	__atomic_store_n(&boot->ready, 1, __ATOMIC_RELEASE);
	limpet_syscall3(SYS_futex, (long)&boot->ready, FUTEX_WAKE, 1);
	for (;;) {
		uint32_t life =
			__atomic_fetch_or(life_of(boot), LIMPET_LIFE_WAITED_FOR, __ATOMIC_ACQ_REL) |
			LIMPET_LIFE_WAITED_FOR;

		if (!is_awaited(boot))
			return;
		limpet_syscall4(SYS_futex, (long)life_of(boot), FUTEX_WAIT, life, 0);
	}
}

/* What the dynamic linker can open by a name. It is here only while the linker does that: this is
 * the one descriptor of ours that the program ever has. */
static inline __attribute__((always_inline)) long make_file(const struct limpet_boot *boot)
{
	const long name = (long)boot->file_name;
	long file = limpet_syscall3(SYS_memfd_create, name, MFD_CLOEXEC | NOEXEC_SEAL, 0);

	if (file == -EINVAL_VALUE)
		file = limpet_syscall3(SYS_memfd_create, name, MFD_CLOEXEC, 0);
	if (file >= 0 && limpet_syscall3(SYS_write, file, (long)boot->image,
					 (long)boot->image_bytes) != (long)boot->image_bytes) {
		limpet_syscall1(SYS_close, file);
		return -ENOSPC_VALUE;
	}
	return file;
}

/* What the dynamic linker has mapped is listed as readable until here. Where a filter forbids that,
 * it stays so. */
static inline __attribute__((always_inline)) void protect(const struct limpet_boot *boot,
							  uint64_t bias)
{
	const struct limpet_boot_mapping *mapping = boot->layout.mappings;

	for (uint32_t i = 0; i < boot->layout.mapping_count; i++, mapping++)
		if (!(mapping->protection & LIMPET_PROT_CODE) || boot->may_protect_code)
			limpet_syscall3(SYS_mprotect, (long)(bias + mapping->offset),
					(long)mapping->bytes, (long)mapping->protection);
}

static inline __attribute__((always_inline)) int load(struct limpet_boot *boot)
{
	const long file = make_file(boot);
	uint64_t kept, bias;

	if (file < 0)
		return (int)file;
	/* The injector wrote "/proc/thread-self/fd/" in its own spelling; the number is known only
	 * now. */
	{
		unsigned at = 0, digits = 0;
		long rest = file;
		char number[12];

		while (boot->path[at])
			at++;
		do {
			number[digits++] = (char)('0' + rest % 10);
			rest /= 10;
		} while (rest);
		while (digits)
			boot->path[at++] = number[--digits];
		boot->path[at] = 0;
	}
	kept = set_message_aside(boot);
	boot->handle = (uint64_t)(uintptr_t)((dlopen_fn *)(uintptr_t)boot->dlopen)(
		boot->path, (int)boot->dlopen_mode);
	if (!boot->handle)
		keep_words(boot);
	restore_message(boot, kept);
	limpet_syscall1(SYS_close, file);
	if (!boot->handle)
		return -ELIBACC_VALUE;
	/* A handle points to the public head of link_map: the load bias comes first. */
	bias = *(const uint64_t *)(uintptr_t)boot->handle;
	protect(boot, bias);
	boot->info = bias + boot->info_offset;
	return 0;
}

/* The image was mapped as a whole, all of it as code, relocated, but without the first byte of its
 * head: from now on it is a module. */
static inline __attribute__((always_inline)) long make_module(struct limpet_boot *boot)
{
	const struct limpet_boot_map *layout = &boot->layout;
	const struct limpet_boot_mapping *mapping = layout->mappings;
	long answer = 0;

	for (uint32_t i = 0; i < layout->mapping_count && answer >= 0; i++, mapping++)
		if (!(mapping->protection & LIMPET_PROT_CODE))
			answer =
				limpet_syscall3(SYS_mprotect, (long)(boot->agent + mapping->offset),
						(long)mapping->bytes, (long)mapping->protection);
	if (answer < 0)
		return answer;
	*(volatile uint8_t *)(uintptr_t)boot->agent = ELFMAG0;
	boot->info = boot->agent + boot->info_offset;
	return 0;
}

/* Returns dlclose's answer if the loader kept it, or -errno. boot->agent is 0 if the stub
 * runs in the agent: then both are unmapped by the injector, or by limpet_boot_exit. */
static inline __attribute__((always_inline)) int remove_agent(struct limpet_boot *boot)
{
	int answer = 0;

	if (boot->handle) {
		uint64_t kept = set_message_aside(boot);

		answer = ((dlclose_fn *)(uintptr_t)boot->dlclose)((void *)(uintptr_t)boot->handle);
		if (answer)
			keep_words(boot);
		restore_message(boot, kept);
	} else if (boot->agent) {
		answer = (int)limpet_syscall3(SYS_munmap, (long)boot->agent,
					      (long)boot->agent_bytes, 0);
	}
	if (!answer && boot->thunks)
		limpet_syscall3(SYS_munmap, (long)boot->thunks, 2 * LIMPET_THUNKS_BYTES, 0);
	return answer;
}

/* What was mapped is unmapped together with the stub, by limpet_boot_exit or the injector. */
static inline __attribute__((always_inline)) int fail(struct limpet_boot *boot, int answer)
{
	boot->agent = boot->thunks = 0;
	if (boot->handle)
		remove_agent(boot);
	boot->handle = 0;
	return answer;
}

static inline __attribute__((always_inline)) int attach(struct limpet_boot *boot)
{
	struct limpet_agent_info *info;
	long answer = limpet_syscall3(SYS_mprotect, (long)(boot->thunks + LIMPET_THUNKS_BYTES),
				      LIMPET_THUNKS_BYTES, LIMPET_PROT_DATA | boot->start.readable);

	if (answer >= 0)
		answer = boot->agent ? make_module(boot) : load(boot);
	if (answer < 0)
		return fail(boot, (int)answer);
	boot->stage = LIMPET_STAGE_LOADED;
	info = info_of(boot);
	/* Read before it is written, its page would fault twice; what the injector mapped is ours.
	 */
	if (!boot->agent && info->magic != LIMPET_INFO_MAGIC)
		return fail(boot, -ELIBACC_VALUE);
	/* Needed to remove the agent, from here on. */
	info->thunks = boot->thunks;
	boot->start.handle = boot->handle;
	boot->start.map = boot->agent;
	boot->start.map_bytes = boot->agent_bytes;
	/* dlopen may have waited longer than the injector did. */
	if (!is_awaited(boot))
		return fail(boot, -EPIPE_VALUE);
	answer = ((start_fn *)(uintptr_t)info->start)(&boot->start);
	if (answer)
		return fail(boot, (int)answer);
	/* Memory that the program locks is not ours. */
	if (boot->start.unlock)
		limpet_syscall3(SYS_munlock, (long)boot->stub, (long)boot->stub_bytes, 0);
	/* What stays is not unmapped with the stub any more. */
	boot->map = boot->stub;
	boot->map_bytes = boot->stub_bytes;
	boot->stage = LIMPET_STAGE_STARTED;
	return 0;
}

static inline __attribute__((always_inline)) int unload(struct limpet_boot *boot)
{
	((entry_fn *)(uintptr_t)info_of(boot)->release)();
	if (remove_agent(boot)) {
		boot->map = boot->stub;
		boot->map_bytes = boot->stub_bytes;
		return -ELIBACC_VALUE;
	}
	boot->stage = LIMPET_STAGE_DONE;
	return 0;
}

/* Entry: rsp points into the scratch memory, rdi is the argument. Never returns: the injector
 * restores the registers while the stub waits, or limpet_boot_exit resumes the thread. */
BOOT __attribute__((noreturn, used)) void limpet_boot_entry(struct limpet_boot *boot);
BOOT __attribute__((noreturn, used)) void limpet_boot_entry(struct limpet_boot *boot)
{
	switch (boot->operation) {
	case LIMPET_BOOT_ATTACH:
		boot->result = attach(boot);
		break;
	case LIMPET_BOOT_CALL:
		boot->result = ((start_fn *)(uintptr_t)boot->call)(
			(struct limpet_start *)(uintptr_t)boot->argument);
		break;
	case LIMPET_BOOT_UNLOAD:
		boot->result = unload(boot);
		break;
	default:
		boot->result = -ELIBACC_VALUE;
		break;
	}
	wait_for_end(boot);
	/* The injector has died, or does not wait any more. */
	if (boot->operation == LIMPET_BOOT_ATTACH && boot->stage == LIMPET_STAGE_STARTED)
		((entry_fn *)(uintptr_t)info_of(boot)->detach)();
	limpet_boot_exit(boot->exit_sp, boot->exit_syscall, boot->map, boot->map_bytes);
}
