#include "injector/ptrace/arch/x86_64/sigreturn_frame.h"

#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "injector/proc/memory.h"

#define FXSAVE_BYTES 512u
#define SW_RESERVED 464u /* in the fxsave area */
#define XSAVE_HEADER 512u
#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u
#define XFEATURE_PKRU 9
#define PKRU_BYTES 8u /* its component: the register, and nothing */
#define XFEATURE_TILEDATA 18
#define UC_FP_XSTATE 1u
#define UC_SIGCONTEXT_SS 2u
#define UC_STRICT_RESTORE_SS 4u
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516
/* The area of agent/arch/x86_64/vectors.S. */
#define BY_HAND_BYTES 1152u
#define BY_HAND_MORE_BYTES 1024u /* zmm16 to zmm31 */

/* The kernel's struct ucontext: glibc's is longer. */
struct kernel_ucontext {
	uint64_t flags, link;
	stack_t stack;
	uint64_t gregs[23];
	uint64_t fpstate;
	uint64_t reserved[8];
	uint64_t signal_mask;
};
struct kernel_frame {
	uint64_t restorer;
	struct kernel_ucontext uc;
	siginfo_t info;
};

/* struct _fpx_sw_bytes */
struct software_bytes {
	uint32_t magic1, extended_size;
	uint64_t features;
	uint32_t size;
	uint32_t padding[7];
};

/* Where each feature's state ends; 0: it has none. On a virtual machine each question takes several
 * microseconds, while a thread of the target stands. */
#define XFEATURES 63u
static uint32_t feature_ends[XFEATURES];
static bool feature_ends_known;

void limpet_sigreturn_frame_prepare(void)
{
	uint32_t low, high, b, c, d;
	uint64_t features;

	if (feature_ends_known)
		return;
	__cpuid_count(0xd, 0, low, b, c, high);
	features = (uint64_t)high << 32 | low;
	for (uint32_t i = 2; i < XFEATURES; i++) {
		uint32_t bytes, offset;

		if (!(features >> i & 1))
			continue;
		__cpuid_count(0xd, i, bytes, offset, c, d);
		feature_ends[i] = bytes ? offset + bytes : 0;
	}
	feature_ends_known = true;
}

/* rt_sigreturn accepts a frame only up to the task's own size: with a larger one it silently resets
 * the upper halves of the vector registers. Tile data counts only if the task has requested
 * permission for it. */
static uint32_t xstate_size_of_task(uint64_t features)
{
	uint32_t size = FXSAVE_BYTES + 64;

	limpet_sigreturn_frame_prepare();
	for (uint32_t i = 2; i < XFEATURES; i++)
		if (features >> i & 1 && feature_ends[i] > size)
			size = feature_ends[i];
	return size;
}

uint32_t limpet_xstate_pkru_offset(void)
{
	limpet_sigreturn_frame_prepare();
	return feature_ends[XFEATURE_PKRU] ? feature_ends[XFEATURE_PKRU] - PKRU_BYTES : 0;
}

bool limpet_xstate_denies_key_0(const uint8_t *xstate, size_t bytes, uint32_t pkru_offset)
{
	const uint32_t access_or_write = 3;
	uint64_t features;
	uint32_t pkru;

	if (bytes < FXSAVE_BYTES || !pkru_offset || pkru_offset + sizeof(pkru) > bytes)
		return false;
	memcpy(&features, xstate + SW_RESERVED, sizeof(features));
	memcpy(&pkru, xstate + pkru_offset, sizeof(pkru));
	return features >> XFEATURE_PKRU & 1 && pkru & access_or_write;
}

struct limpet_vectors limpet_xstate_vectors(void)
{
	const uint32_t sse_and_avx = 3u << 1, avx512 = 7u << 5, apx = 1u << 19;
	const uint32_t osxsave = 1u << 27, tells_use = 1u << 2, masks_of_64 = 1u << 30;
	struct limpet_vectors vectors = {.bytes = BY_HAND_BYTES, .by_hand = 1};
	uint32_t a = 0, b = 0, c = 0, d, enabled;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave))
		return vectors;
	__asm__("xgetbv" : "=a"(enabled), "=d"(d) : "c"(0));
	vectors.mask = enabled & (sse_and_avx | avx512 | apx);
	if (vectors.mask & avx512)
		vectors.bytes += BY_HAND_MORE_BYTES;
	vectors.by_hand = !(vectors.mask & apx) && __get_cpuid_count(0xd, 1, &a, &b, &c, &d) &&
			  a & tells_use &&
			  (!(vectors.mask & avx512) ||
			   (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b & masks_of_64));
	if (!vectors.by_hand)
		vectors.bytes = xstate_size_of_task(vectors.mask);
	return vectors;
}

static void registers_to_greg(const struct user_regs_struct *regs, uint64_t *gregs)
{
	const int64_t answer = (int64_t)regs->rax;

	gregs[REG_R8] = regs->r8;
	gregs[REG_R9] = regs->r9;
	gregs[REG_R10] = regs->r10;
	gregs[REG_R11] = regs->r11;
	gregs[REG_R12] = regs->r12;
	gregs[REG_R13] = regs->r13;
	gregs[REG_R14] = regs->r14;
	gregs[REG_R15] = regs->r15;
	gregs[REG_RDI] = regs->rdi;
	gregs[REG_RSI] = regs->rsi;
	gregs[REG_RBP] = regs->rbp;
	gregs[REG_RBX] = regs->rbx;
	gregs[REG_RDX] = regs->rdx;
	gregs[REG_RAX] = regs->rax;
	gregs[REG_RCX] = regs->rcx;
	gregs[REG_RSP] = regs->rsp;
	gregs[REG_RIP] = regs->rip;
	gregs[REG_EFL] = regs->eflags;
	gregs[REG_CSGSFS] = (regs->cs & 0xffff) | (regs->ss & 0xffff) << 48;
	/* Here the kernel cannot restart an interrupted call on the way out: restart it by hand. A
	 * call that needs its restart block returns EINTR, as after a signal. */
	if ((int64_t)regs->orig_rax < 0)
		return;
	if (answer == -ERESTARTSYS || answer == -ERESTARTNOINTR || answer == -ERESTARTNOHAND) {
		gregs[REG_RAX] = regs->orig_rax;
		gregs[REG_RIP] = regs->rip - 2;
	} else if (answer == -ERESTART_RESTARTBLOCK) {
		gregs[REG_RAX] = (uint64_t)(int64_t)-EINTR;
	}
}

uint64_t limpet_sigreturn_frame_answer(uint64_t address)
{
	return address + offsetof(struct kernel_frame, uc.gregs) + REG_RAX * sizeof(uint64_t);
}

int limpet_sigreturn_frame_end_call(pid_t pid, uint64_t address,
				    const struct user_regs_struct *regs)
{
	const uint64_t gregs = address + offsetof(struct kernel_frame, uc.gregs);
	const uint64_t answer = (uint64_t)(int64_t)-EINTR, pc = regs->rip;
	int error;

	if ((int64_t)regs->orig_rax < 0 || (int64_t)regs->rax != -ERESTARTNOHAND)
		return 0;
	error = limpet_memory_write(pid, gregs + REG_RAX * sizeof(answer), &answer, sizeof(answer));
	return error ? error
		     : limpet_memory_write(pid, gregs + REG_RIP * sizeof(pc), &pc, sizeof(pc));
}

int limpet_sigreturn_frame_build(const struct limpet_sigreturn_state *state, uint64_t restorer,
				 uint64_t top, struct limpet_sigreturn_frame *ret)
{
	const uint8_t *xstate = state->xstate;
	struct software_bytes software = {.magic1 = MAGIC1};
	const uint32_t magic2 = MAGIC2;
	uint64_t features, in_use, fp_address, frame_address;
	struct kernel_frame frame;
	uint32_t size;
	uint8_t *image;
	size_t bytes;

	if (state->xstate_bytes < FXSAVE_BYTES + 64)
		return -ENOTSUP;
	memcpy(&features, xstate + SW_RESERVED, sizeof(features));
	memcpy(&in_use, xstate + XSAVE_HEADER, sizeof(in_use));
	if (!(in_use >> XFEATURE_TILEDATA & 1))
		features &= ~(1ull << XFEATURE_TILEDATA);
	size = xstate_size_of_task(features);
	if (size > state->xstate_bytes)
		return -ENOTSUP;

	fp_address = (top - size - sizeof(magic2)) & ~63ull;
	frame_address = ((fp_address - sizeof(frame)) & ~15ull) - 8;
	bytes = (size_t)(fp_address + size + sizeof(magic2) - frame_address);
	image = calloc(1, bytes);
	if (!image)
		return -ENOMEM;

	memset(&frame, 0, sizeof(frame));
	frame.restorer = restorer;
	frame.uc.flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
	/* rt_sigreturn also sets the thread's alternate signal stack, which cannot be read from
	 * outside. With an invalid mode it leaves the stack as it is, and ignores the error. */
	frame.uc.stack.ss_flags = SS_ONSTACK | SS_DISABLE;
	frame.uc.fpstate = fp_address;
	frame.uc.signal_mask = state->signal_mask;
	registers_to_greg(state->regs, frame.uc.gregs);

	software.extended_size = size + (uint32_t)sizeof(magic2);
	software.features = features;
	software.size = size;
	memcpy(image, &frame, sizeof(frame));
	memcpy(image + (fp_address - frame_address), xstate, size);
	memcpy(image + (fp_address - frame_address) + SW_RESERVED, &software, sizeof(software));
	memcpy(image + (fp_address - frame_address) + size, &magic2, sizeof(magic2));
	*ret = (struct limpet_sigreturn_frame){frame_address, image, bytes};
	return 0;
}

void limpet_sigreturn_frame_bare(const struct user_regs_struct *regs, uint64_t restorer,
				 uint8_t ret_image[LIMPET_BARE_FRAME_BYTES])
{
	/* The kernel reads no signal's information. */
	const size_t bytes = offsetof(struct kernel_frame, info);
	struct kernel_frame frame;

	_Static_assert(offsetof(struct kernel_frame, info) <= LIMPET_BARE_FRAME_BYTES,
		       "room for a frame");
	memset(&frame, 0, sizeof(frame));
	frame.restorer = restorer;
	frame.uc.flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
	frame.uc.stack.ss_flags = SS_ONSTACK | SS_DISABLE;
	frame.uc.signal_mask = ~0ull;
	registers_to_greg(regs, frame.uc.gregs);
	memset(ret_image, 0, LIMPET_BARE_FRAME_BYTES);
	memcpy(ret_image, &frame, bytes);
}
