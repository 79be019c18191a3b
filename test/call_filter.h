/* Seccomp filters by the numbers of calls, for tests and the programs that they capture. */
#ifndef LIMPET_TEST_CALL_FILTER_H
#define LIMPET_TEST_CALL_FILTER_H

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL_FILTER_MOST 256

struct call_filter {
	unsigned short count;
	struct sock_filter code[CALL_FILTER_MOST];
};

static inline void call_filter_add(struct call_filter *filter, struct sock_filter code)
{
	assert(filter->count < CALL_FILTER_MOST);
	filter->code[filter->count++] = code;
}

/* What is compared from here on; `offset` is one in struct seccomp_data. */
static inline void call_filter_load(struct call_filter *filter, size_t offset)
{
	call_filter_add(filter,
			(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* Goes over so many instructions, by whether what was loaded is `value`. */
static inline void call_filter_skip(struct call_filter *filter, uint32_t value, uint8_t if_it_is,
				    uint8_t if_not)
{
	call_filter_add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value,
							     if_it_is, if_not));
}

static inline void call_filter_end(struct call_filter *filter, uint32_t verdict)
{
	call_filter_add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

/* Where what was loaded is `value`. */
static inline void call_filter_judge(struct call_filter *filter, uint32_t value, uint32_t verdict)
{
	call_filter_skip(filter, value, 0, 1);
	call_filter_end(filter, verdict);
}

/* `flags` are those of seccomp(2). Answers as it does, or -errno. */
static inline int call_filter_set(struct call_filter *filter, unsigned flags)
{
	struct sock_fprog program = {filter->count, filter->code};
	long answer = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);

	return answer < 0 ? -errno : (int)answer;
}

/* With what an unprivileged program has to say first. */
static inline int call_filter_install(struct call_filter *filter, unsigned flags)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : call_filter_set(filter, flags);
}

#endif
