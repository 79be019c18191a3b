/* The registers that a walk begins with, as perf_event_open(2) samples them: in ascending order of
 * their numbers (arch/x86/include/uapi/asm/perf_regs.h). */
#ifndef LIMPET_FAULTS_ARCH_SAMPLED_REGISTERS_H
#define LIMPET_FAULTS_ARCH_SAMPLED_REGISTERS_H

#define LIMPET_SAMPLED_REGISTERS ((1u << 6) | (1u << 7) | (1u << 8)) /* rbp, rsp, rip */
enum { LIMPET_SAMPLED_FP, LIMPET_SAMPLED_SP, LIMPET_SAMPLED_PC, LIMPET_SAMPLED_COUNT };

#endif
