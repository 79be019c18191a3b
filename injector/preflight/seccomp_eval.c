#include "injector/preflight/seccomp_eval.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* ------------------------------------------------------------------ classic BPF */

struct machine {
	uint32_t a, x, memory[BPF_MEMWORDS];
};

static bool load(const struct seccomp_data *data, uint32_t offset, uint32_t *ret)
{
	/* aligned words within struct seccomp_data, as seccomp_check_filter() demands */
	if (offset % 4 || offset > sizeof(*data) - 4)
		return false;
	memcpy(ret, (const char *)data + offset, 4);
	return true;
}

static bool arithmetic(struct machine *m, const struct sock_filter *at)
{
	uint32_t operand = BPF_SRC(at->code) == BPF_X ? m->x : at->k;

	switch (BPF_OP(at->code)) {
	case BPF_ADD:
		m->a += operand;
		return true;
	case BPF_SUB:
		m->a -= operand;
		return true;
	case BPF_MUL:
		m->a *= operand;
		return true;
	case BPF_DIV:
		if (!operand)
			return false;
		m->a /= operand;
		return true;
	case BPF_AND:
		m->a &= operand;
		return true;
	case BPF_OR:
		m->a |= operand;
		return true;
	case BPF_XOR:
		m->a ^= operand;
		return true;
	case BPF_LSH: /* the kernel masks a shift count in X, and rejects a larger K */
		m->a <<= operand & 31;
		return true;
	case BPF_RSH:
		m->a >>= operand & 31;
		return true;
	case BPF_NEG:
		m->a = -m->a;
		return true;
	default:
		return false;
	}
}

static bool jump_taken(const struct machine *m, const struct sock_filter *at, bool *ret_taken)
{
	uint32_t operand = BPF_SRC(at->code) == BPF_X ? m->x : at->k;

	switch (BPF_OP(at->code)) {
	case BPF_JEQ:
		*ret_taken = m->a == operand;
		return true;
	case BPF_JGT:
		*ret_taken = m->a > operand;
		return true;
	case BPF_JGE:
		*ret_taken = m->a >= operand;
		return true;
	case BPF_JSET:
		*ret_taken = (m->a & operand) != 0;
		return true;
	default:
		return false;
	}
}

static bool move(struct machine *m, const struct sock_filter *at, const struct seccomp_data *data)
{
	uint32_t *to = BPF_CLASS(at->code) == BPF_LDX ? &m->x : &m->a;

	switch (BPF_CLASS(at->code)) {
	case BPF_LD:
	case BPF_LDX:
		switch (BPF_MODE(at->code)) {
		case BPF_ABS:
			return BPF_CLASS(at->code) == BPF_LD && BPF_SIZE(at->code) == BPF_W &&
			       load(data, at->k, to);
		case BPF_IMM:
			*to = at->k;
			return true;
		case BPF_LEN:
			*to = sizeof(*data);
			return true;
		case BPF_MEM:
			if (at->k >= BPF_MEMWORDS)
				return false;
			*to = m->memory[at->k];
			return true;
		default:
			return false;
		}
	case BPF_ST:
	case BPF_STX:
		if (at->k >= BPF_MEMWORDS)
			return false;
		m->memory[at->k] = BPF_CLASS(at->code) == BPF_ST ? m->a : m->x;
		return true;
	default: /* BPF_MISC */
		if (BPF_MISCOP(at->code) == BPF_TAX)
			m->x = m->a;
		else if (BPF_MISCOP(at->code) == BPF_TXA)
			m->a = m->x;
		else
			return false;
		return true;
	}
}

/* Jumps only go forward, so every run ends. */
static uint32_t run(const struct sock_filter *list, size_t count, const struct seccomp_data *data)
{
	struct machine m = {0};

	for (size_t pc = 0; pc < count; pc++) {
		const struct sock_filter *at = &list[pc];
		bool taken;

		switch (BPF_CLASS(at->code)) {
		case BPF_RET:
			return BPF_RVAL(at->code) == BPF_A ? m.a : at->k;
		case BPF_JMP:
			if (BPF_OP(at->code) == BPF_JA) {
				if (at->k >= count)
					return SECCOMP_RET_KILL_PROCESS;
				pc += at->k;
			} else if (jump_taken(&m, at, &taken)) {
				pc += taken ? at->jt : at->jf;
			} else {
				return SECCOMP_RET_KILL_PROCESS;
			}
			break;
		case BPF_ALU:
			/* division by zero in X ends the program with result 0, which is
			 * KILL_THREAD */
			if (!arithmetic(&m, at))
				return SECCOMP_RET_KILL_THREAD;
			break;
		default:
			if (!move(&m, at, data))
				return SECCOMP_RET_KILL_PROCESS;
			break;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

uint32_t limpet_seccomp_evaluate(const struct limpet_seccomp_filters *filters,
				 const struct seccomp_data *data)
{
	uint32_t strictest = SECCOMP_RET_ALLOW;

	for (size_t i = 0; i < filters->count; i++) {
		uint32_t action = run(filters->list[i].list, filters->list[i].count, data);

		/* compared as signed numbers, KILL_PROCESS is the least (kernel/seccomp.c); of
		 * equal results the one of the last attached filter wins, which comes first here */
		if ((int32_t)(action & SECCOMP_RET_ACTION_FULL) <
		    (int32_t)(strictest & SECCOMP_RET_ACTION_FULL))
			strictest = action;
	}
	return strictest;
}

/* ------------------------------------------------------------------ verdicts */

static uint32_t evaluate(const struct limpet_seccomp_filters *filters, int number,
			 const uint64_t args[6])
{
	struct seccomp_data data = {
		.nr = number,
		.arch = filters->arch,
		/* an address in libc; limpet does not handle filters that check the origin of a
		 * call */
		.instruction_pointer = 0x7ffff7e00000ull,
	};

	for (int i = 0; i < 6; i++)
		data.args[i] = args[i];
	return limpet_seccomp_evaluate(filters, &data);
}

static bool harmless(const struct limpet_seccomp_call *call, uint32_t action)
{
	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return true;
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_TRACE: /* ENOSYS if no tracer has asked for it */
		return call->optional;
	default:
		return false;
	}
}

void limpet_seccomp_judge(const struct limpet_seccomp_filters *filters, bool locked,
			  struct limpet_seccomp_verdict *ret_verdict)
{
	struct limpet_seccomp_verdict verdict = {.action = SECCOMP_RET_ALLOW};
	/* mprotect(page, 4096, PROT_EXEC) */
	const uint64_t make_executable[6] = {0x7ffff7e00000ull, 4096, 4};
	uint32_t action;

	for (size_t i = 0; i < limpet_seccomp_call_count; i++) {
		const struct limpet_seccomp_call *call = &limpet_seccomp_calls[i];

		if (call->number == SYS_munlock && !locked)
			continue;
		action = evaluate(filters, call->number, call->args);
		if (harmless(call, action))
			continue;
		if (!verdict.call || (int32_t)(action & SECCOMP_RET_ACTION_FULL) <
					     (int32_t)(verdict.action & SECCOMP_RET_ACTION_FULL)) {
			verdict.call = call;
			verdict.action = action;
		}
	}
	action = evaluate(filters, SYS_mprotect, make_executable);
	verdict.denies_exec = (action & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ALLOW &&
			      (action & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_LOG;
	*ret_verdict = verdict;
}

const char *limpet_seccomp_action_words(uint32_t action, char *buffer, size_t room)
{
	const char *name;

	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_KILL_PROCESS:
		return "would kill it at";
	case SECCOMP_RET_KILL_THREAD:
		return "would kill a thread of it at";
	case SECCOMP_RET_TRAP:
		return "would send it SIGSYS at";
	case SECCOMP_RET_USER_NOTIF:
		return "asks a supervisor about";
	case SECCOMP_RET_TRACE:
		return "asks a tracer about";
	case SECCOMP_RET_ERRNO:
		name = strerrorname_np((int)(action & SECCOMP_RET_DATA));
		snprintf(buffer, room, "answers %s to", name ? name : "an error");
		return buffer;
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return "allows";
	default:
		/* the kernel kills for an unknown action */
		return "would kill it at";
	}
}
