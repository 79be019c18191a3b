/* The registers that a watched call is sampled with, as perf_event_open(2) writes them: in
 * ascending order of their numbers (arch/x86/include/uapi/asm/perf_regs.h). */
#ifndef LIMPET_INJECTOR_HIDDEN_ARCH_PROBED_REGISTERS_H
#define LIMPET_INJECTOR_HIDDEN_ARCH_PROBED_REGISTERS_H

#define LIMPET_PROBED_REGISTERS \
	((1u << 0) | (1u << 3) | (1u << 4) | (1u << 5) | (1u << 7)) /* rax, rdx, rsi, rdi, rsp */
enum {
	LIMPET_PROBED_RESULT,
	LIMPET_PROBED_RESULT_2,
	LIMPET_PROBED_ARG_2,
	LIMPET_PROBED_ARG_1,
	LIMPET_PROBED_SP,
	LIMPET_PROBED_COUNT
};

#endif
