/* The boot stub: loads, drives and unloads the agent from outside of it.
 *
 * This code is mapped separately, from the same file as the agent, and runs on a thread that the
 * injector holds. It refers to nothing but its argument and the stack in the scratch memory. With a
 * stub the thread executes a whole step (move descriptors, dlopen, start) at once instead of
 * stopping twice at each system call of the dynamic linker; if the injector dies, the stub undoes
 * what it can and resumes the thread. */
#include "agent/agent.h"

#include <asm/stat.h>
#include <elf.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

#define BOOT __attribute__((section(".boot")))
#define EINTR_VALUE 4
#define EPIPE_VALUE 32
#define ELIBACC_VALUE 79
#define MSG_NOSIGNAL_FLAG 0x4000
#define UNIX_FAMILY 1 /* not in the kernel's headers */
#define SEQPACKET_TYPE 5

typedef void *dlopen_fn(const char *path, int mode);
typedef int dlclose_fn(void *handle);
typedef char *dlerror_fn(void);
typedef int start_fn(struct limpet_start *start);
typedef int entry_fn(void);

/* Moves a descriptor up, so that the program gets the numbers it expects next. */
static inline __attribute__((always_inline)) int move_up(int fd, int floor)
{
	long moved = limpet_syscall3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, floor);

	if (moved < 0)
		return fd; /* no higher number is free: keep this one */
	limpet_syscall1(SYS_close, fd);
	return (int)moved;
}

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
static inline __attribute__((always_inline)) void put_message_back(const struct limpet_boot *boot,
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

static inline __attribute__((always_inline)) void close_image(struct limpet_boot *boot)
{
	limpet_syscall1(SYS_close, boot->image);
	boot->image = -1;
}

/* Creates the channel in its first system call; the injector then takes its end. An injector that
 * dies therefore leaves no descriptor open for good. */
static inline __attribute__((always_inline)) long begin(struct limpet_boot *boot)
{
	struct limpet_msg message = {.type = LIMPET_MSG_BEGUN};
	long answer = limpet_syscall4(SYS_socketpair, UNIX_FAMILY, SEQPACKET_TYPE | O_CLOEXEC, 0,
				      (long)&boot->channel);

	if (answer < 0)
		return answer;
	limpet_syscall1(SYS_close, boot->injector_end);
	boot->injector_end = -1;
	boot->stage = LIMPET_STAGE_BEGUN;
	/* Fails if the injector has died: then the loader is not called either. */
	return limpet_syscall6(SYS_sendto, boot->channel, (long)&message, sizeof(message),
			       MSG_NOSIGNAL_FLAG, 0, 0);
}

static inline __attribute__((always_inline)) bool is_same(int fd, const struct stat *known)
{
	struct stat now;

	now.st_dev = now.st_ino = 0;
	return limpet_syscall3(SYS_fstat, fd, (long)&now, 0) == 0 && now.st_dev == known->st_dev &&
	       now.st_ino == known->st_ino;
}

/* False if the other end is closed, or the program has closed or reused the descriptor. */
static inline __attribute__((always_inline)) bool is_awaited(const struct limpet_boot *boot,
							     const struct stat *channel)
{
	struct limpet_msg message = {.type = LIMPET_MSG_BEGUN};

	return is_same(boot->channel, channel) &&
	       limpet_syscall6(SYS_sendto, boot->channel, (long)&message, sizeof(message),
			       MSG_NOSIGNAL_FLAG, 0, 0) >= 0;
}

/* What the dynamic linker has mapped is listed as readable until here. Where a filter forbids that,
 * it stays so. */
static inline __attribute__((always_inline)) void protect(const struct limpet_boot *boot,
							  uint64_t bias)
{
	const struct limpet_boot_piece *piece = boot->layout.pieces;

	for (uint32_t i = 0; i < boot->layout.piece_count; i++, piece++)
		if (!(piece->protection & LIMPET_PROT_CODE) || boot->may_protect_code)
			limpet_syscall3(SYS_mprotect, (long)(bias + piece->offset),
					(long)piece->bytes, (long)piece->protection);
}

static inline __attribute__((always_inline)) int load(struct limpet_boot *boot)
{
	uint64_t kept, bias;

	/* The injector wrote "/proc/thread-self/fd/" in its own spelling; the number is known only
	 * now. */
	{
		unsigned at = 0, digits = 0;
		int rest = boot->image;
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
	put_message_back(boot, kept);
	if (!boot->handle)
		return -ELIBACC_VALUE;
	/* A handle points to the public head of link_map: the load bias comes first. */
	bias = *(const uint64_t *)(uintptr_t)boot->handle;
	protect(boot, bias);
	boot->info = bias + boot->info_offset;
	return 0;
}

static inline __attribute__((always_inline)) int map_piece(const struct limpet_boot *boot,
							   const struct limpet_boot_piece *piece)
{
	long answer =
		limpet_syscall6(SYS_mmap, (long)(boot->agent + piece->offset), (long)piece->bytes,
				(long)piece->protection, MAP_PRIVATE | MAP_FIXED, boot->image,
				(long)piece->file_offset);

	if (answer < 0 && answer > -4096)
		return (int)answer;
	/* A volatile loop: the compiler must not emit a call here. */
	for (uint64_t i = 0; i < piece->zero_bytes; i++)
		((volatile uint8_t *)(uintptr_t)(boot->agent + piece->zero))[i] = 0;
	return 0;
}

/* A mapping of the image also reserves the address range, so that the image's name identifies every
 * part of it. */
static inline __attribute__((always_inline)) int map(struct limpet_boot *boot)
{
	const struct limpet_boot_map *layout = &boot->layout;
	const Elf64_Rela *relocation, *end;
	long answer = limpet_syscall6(SYS_mmap, 0, (long)layout->bytes, PROT_NONE, MAP_PRIVATE,
				      boot->image, 0);

	if (answer < 0 && answer > -4096)
		return (int)answer;
	boot->agent = (uint64_t)answer;
	boot->agent_bytes = layout->bytes;
	for (uint32_t i = 0; i < layout->piece_count; i++) {
		int error = map_piece(boot, &layout->pieces[i]);

		if (error)
			return error;
	}
	relocation = (const Elf64_Rela *)(uintptr_t)(boot->agent + layout->relocations);
	end = relocation + layout->relocation_bytes / sizeof(*relocation);
	for (; relocation < end; relocation++)
		*(volatile uint64_t *)(uintptr_t)(boot->agent + relocation->r_offset) =
			boot->agent + (uint64_t)relocation->r_addend;
	boot->info = boot->agent + boot->info_offset;
	return 0;
}

static inline __attribute__((always_inline)) int map_thunks(struct limpet_boot *boot)
{
	long answer = limpet_syscall6(SYS_mmap, 0, 2 * LIMPET_THUNKS_BYTES,
				      LIMPET_PROT_CODE | boot->start.readable, MAP_PRIVATE,
				      boot->image, LIMPET_THUNKS_OFFSET);

	if (answer < 0 && answer > -4096)
		return (int)answer;
	boot->thunks = (uint64_t)answer;
	answer = limpet_syscall6(SYS_mmap, (long)(boot->thunks + LIMPET_THUNKS_BYTES),
				 LIMPET_THUNKS_BYTES, LIMPET_PROT_DATA | boot->start.readable,
				 MAP_PRIVATE | MAP_FIXED, boot->image,
				 LIMPET_THUNKS_OFFSET + LIMPET_THUNKS_BYTES);
	return answer < 0 && answer > -4096 ? (int)answer : 0;
}

/* Returns dlclose's answer if the loader kept it, or -errno. */
static inline __attribute__((always_inline)) int take_away(struct limpet_boot *boot)
{
	int answer = 0;

	if (boot->handle) {
		uint64_t kept = set_message_aside(boot);

		answer = ((dlclose_fn *)(uintptr_t)boot->dlclose)((void *)(uintptr_t)boot->handle);
		if (answer)
			keep_words(boot);
		put_message_back(boot, kept);
	} else if (boot->agent) {
		answer = (int)limpet_syscall3(SYS_munmap, (long)boot->agent,
					      (long)boot->agent_bytes, 0);
	}
	if (!answer && boot->thunks)
		limpet_syscall3(SYS_munmap, (long)boot->thunks, 2 * LIMPET_THUNKS_BYTES, 0);
	return answer;
}

static inline __attribute__((always_inline)) int attach(struct limpet_boot *boot,
							const struct stat *channel)
{
	struct limpet_agent_info *info;
	int answer;

	boot->channel = move_up(boot->channel, boot->floor);
	boot->image = move_up(boot->image, boot->floor);
	boot->stage = LIMPET_STAGE_MOVED;
	answer = boot->layout.bytes ? map(boot) : load(boot);
	if (!answer)
		answer = map_thunks(boot);
	close_image(boot);
	if (answer) {
		if (boot->agent || boot->handle)
			take_away(boot);
		boot->handle = boot->agent = 0;
		return answer;
	}
	boot->stage = LIMPET_STAGE_LOADED;
	info = info_of(boot);
	if (info->magic != LIMPET_INFO_MAGIC) {
		take_away(boot);
		boot->handle = boot->agent = 0;
		return -ELIBACC_VALUE;
	}
	/* Needed to remove the agent, from here on. */
	info->thunks = boot->thunks;
	boot->start.channel = boot->channel;
	boot->start.handle = boot->handle;
	boot->start.map = boot->agent;
	boot->start.map_bytes = boot->agent_bytes;
	/* dlopen may have waited longer than the injector did. */
	answer = -EPIPE_VALUE;
	if (is_awaited(boot, channel))
		answer = ((start_fn *)(uintptr_t)info->start)(&boot->start);
	if (answer) {
		take_away(boot);
		boot->handle = boot->agent = 0;
		return answer;
	}
	boot->stage = LIMPET_STAGE_STARTED;
	return 0;
}

static inline __attribute__((always_inline)) int unload(struct limpet_boot *boot)
{
	if (!boot->handle && !boot->agent)
		return -ELIBACC_VALUE;
	((entry_fn *)(uintptr_t)info_of(boot)->release)();
	if (take_away(boot))
		return -ELIBACC_VALUE;
	boot->stage = LIMPET_STAGE_DONE;
	return 0;
}

/* Entry: rsp points into the scratch memory, rdi is the argument. Never returns: the injector
 * restores the registers while the stub waits, or limpet_boot_exit resumes the thread. */
BOOT __attribute__((noreturn, used)) void limpet_boot_entry(struct limpet_boot *boot);
BOOT __attribute__((noreturn, used)) void limpet_boot_entry(struct limpet_boot *boot)
{
	struct limpet_msg message = {.type = LIMPET_MSG_READY};
	struct stat channel;
	int fd;
	long answer = begin(boot);

	channel.st_dev = channel.st_ino = 0;
	limpet_syscall3(SYS_fstat, boot->channel, (long)&channel, 0);
	if (answer < 0 || boot->operation != LIMPET_BOOT_ATTACH)
		close_image(boot);
	if (answer < 0) {
		limpet_syscall1(SYS_close, boot->channel);
		limpet_boot_exit(boot->exit_sp, boot->exit_syscall, boot->map, boot->map_bytes);
	}
	switch (boot->operation) {
	case LIMPET_BOOT_ATTACH:
		boot->result = attach(boot, &channel);
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
	fd = boot->channel;
	message.value = (uint64_t)(int64_t)boot->result;
	/* Another thread may have closed unknown descriptors and opened its own. */
	if (is_same(fd, &channel))
		answer = limpet_syscall6(SYS_sendto, fd, (long)&message, sizeof(message),
					 MSG_NOSIGNAL_FLAG, 0, 0);
	while ((answer >= 0 || answer == -EINTR_VALUE) && is_same(fd, &channel))
		answer = limpet_syscall6(SYS_recvfrom, fd, (long)&message, 1, 0, 0, 0) ?: -1;
	/* The injector has died, or cannot be reached. */
	if (boot->operation == LIMPET_BOOT_ATTACH && boot->stage == LIMPET_STAGE_STARTED)
		((entry_fn *)(uintptr_t)info_of(boot)->detach)();
	else if (is_same(fd, &channel))
		limpet_syscall1(SYS_close, fd);
	limpet_boot_exit(boot->exit_sp, boot->exit_syscall, boot->map, boot->map_bytes);
}
