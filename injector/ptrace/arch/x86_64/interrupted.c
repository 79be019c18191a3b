#include "injector/ptrace/arch/x86_64/interrupted.h"

#include <capstone/capstone.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "common/err.h"
#include "injector/proc/memory.h"
#include "injector/ptrace/arch/x86_64/machine.h"
#include "injector/ptrace/stop_effect.h"

#define ERESTARTNOHAND 514
#define SYSCALL_BYTES 2u
#define SYSCALL_CODE 0x050fu
#define INSTRUCTION_MOST 15u
/* The C library's functions need less. */
#define PATHS_MOST 8u
#define STEPS_MOST 64u

/* What runs after the call: addresses where a path begins that was not followed yet. */
struct paths {
	uint64_t list[PATHS_MOST];
	unsigned count;
	csh handle;
	cs_insn *insn;
};

enum step { STEP_ON, STEP_DEAD, STEP_READ };

static bool is_limit(uint16_t id)
{
	return id == X86_REG_R10 || id == X86_REG_R10D || id == X86_REG_R10W || id == X86_REG_R10B;
}

static bool has_limit(const uint16_t *list, uint8_t count)
{
	for (unsigned i = 0; i < count; i++)
		if (is_limit(list[i]))
			return true;
	return false;
}

/* A function that is called or returned to expects nothing in the register (System V ABI). */
static enum step step_over(struct paths *paths, uint64_t *address)
{
	const cs_insn *insn = paths->insn;
	cs_regs read, written;
	uint8_t reads, writes;

	if (cs_regs_access(paths->handle, insn, read, &reads, written, &writes) != CS_ERR_OK ||
	    has_limit(read, reads) || insn->id == X86_INS_SYSCALL || insn->id == X86_INS_INT)
		return STEP_READ;
	if (has_limit(written, writes) || insn->id == X86_INS_RET ||
	    cs_insn_group(paths->handle, insn, CS_GRP_CALL))
		return STEP_DEAD;
	if (!cs_insn_group(paths->handle, insn, CS_GRP_JUMP))
		return STEP_ON;
	if (!cs_insn_group(paths->handle, insn, CS_GRP_BRANCH_RELATIVE) ||
	    paths->count == PATHS_MOST)
		return STEP_READ;
	if (insn->id == X86_INS_JMP)
		*address = (uint64_t)insn->detail->x86.operands[0].imm;
	else
		paths->list[paths->count++] = (uint64_t)insn->detail->x86.operands[0].imm;
	return STEP_ON;
}

static bool spares_limit(struct paths *paths, pid_t pid)
{
	unsigned steps = 0;

	for (unsigned i = 0; i < paths->count; i++) {
		uint64_t address = paths->list[i];
		enum step step = STEP_ON;

		while (step == STEP_ON && steps++ < STEPS_MOST) {
			uint8_t bytes[INSTRUCTION_MOST];
			const uint8_t *code = bytes;
			ssize_t got = limpet_memory_read_some(pid, address, bytes, sizeof(bytes));
			size_t left = got > 0 ? (size_t)got : 0;

			if (!cs_disasm_iter(paths->handle, &code, &left, &address, paths->insn))
				return false;
			step = step_over(paths, &address);
		}
		if (step != STEP_DEAD)
			return false;
	}
	return true;
}

bool limpet_interrupted_spares_limit(pid_t pid, uint64_t pc)
{
	struct paths paths = {.list = {pc}, .count = 1};
	bool spares;

	if (cs_open(CS_ARCH_X86, CS_MODE_64, &paths.handle) != CS_ERR_OK)
		return false;
	cs_option(paths.handle, CS_OPT_DETAIL, CS_OPT_ON);
	paths.insn = cs_malloc(paths.handle);
	spares = paths.insn && spares_limit(&paths, pid);
	if (paths.insn)
		cs_free(paths.insn, 1);
	cs_close(&paths.handle);
	return spares;
}

bool limpet_interrupted_came_by_syscall(pid_t tid, const struct user_regs_struct *regs)
{
	long word;

	if (regs->cs != LIMPET_ARCH_USER_CODE)
		return false;
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, tid, (void *)(uintptr_t)(regs->rip - SYSCALL_BYTES), NULL);
	return !errno && (word & 0xffff) == SYSCALL_CODE;
}

static bool is_that_wait(const struct limpet_timed_wait *wait, const struct user_regs_struct *regs)
{
	return wait && wait->begun_ns && wait->number == (long)regs->orig_rax &&
	       wait->pc == regs->rip && wait->sp == regs->rsp &&
	       wait->limit_ms == (int32_t)regs->r10;
}

/* bpf(2) says EAGAIN instead of EINTR. */
static bool was_interrupted(const struct user_regs_struct *regs)
{
	const int64_t answer = (int64_t)regs->rax;

	return answer == -EINTR || (answer == -EAGAIN && regs->orig_rax == SYS_bpf);
}

bool limpet_interrupted_again(pid_t pid, pid_t tid, struct limpet_timed_wait *wait,
			      struct user_regs_struct *regs)
{
	const uint64_t args[6] = {regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9};
	const long number = (long)regs->orig_rax;
	enum limpet_stop_limit limit;

	if (number < 0 || !was_interrupted(regs))
		return false;
	limit = limpet_stop_limit_of(number, args);
	if (limit == LIMPET_LIMIT_UNKNOWN || !limpet_interrupted_came_by_syscall(tid, regs))
		return false;
	if (limit == LIMPET_LIMIT_IN_REGISTER) {
		if (!is_that_wait(wait, regs) || !limpet_timed_wait_lasted(pid, tid, wait))
			return false;
		wait->shortened = true;
		limpet_interrupted_shorten(wait, regs);
	}
	regs->rax = (uint64_t)(int64_t)-ERESTARTNOHAND;
	return true;
}

void limpet_interrupted_mend(pid_t tid, struct limpet_timed_wait *wait)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) == 0 &&
	    limpet_interrupted_again(tid, tid, wait, &regs))
		ptrace(PTRACE_SETREGS, tid, NULL, &regs);
}

bool limpet_interrupted_shorten(const struct limpet_timed_wait *wait, struct user_regs_struct *regs)
{
	const uint64_t left_ms = (uint64_t)limpet_timed_wait_left(wait);
	const bool changes = regs->r10 != left_ms;

	regs->r10 = left_ms;
	return changes;
}
