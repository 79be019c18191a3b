/* registers_hold(struct registers_state *): loads every register and the red zone with known values,
 * counts down or makes one system call, and stores what it finds there afterwards. */
#include "test/targets/registers.h"

#define ROOM 1024

	.text
	.globl registers_hold
	.type registers_hold, @function
	.balign 16
registers_hold:
	.cfi_startproc
	.irp register, rbp, rbx, r12, r13, r14, r15
	push %\register
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \register, 0
	.endr
	sub $ROOM, %rsp
	.cfi_adjust_cfa_offset ROOM
	mov %rdi, (%rsp)
	mov %rsp, REGISTERS_SP_IN(%rdi)
	mov %rdi, %rax

	fninit
	fldcw REGISTERS_CONTROL_IN(%rax)
	.irp i, 7, 6, 5, 4, 3, 2, 1, 0
	fldt REGISTERS_X87_IN + 16 * \i(%rax)
	.endr
	ldmxcsr REGISTERS_MXCSR_IN(%rax)

	mov REGISTERS_LEVEL(%rax), %rcx
	cmp $REGISTERS_LEVEL_SSE, %rcx
	je .Lload_sse
	cmp $REGISTERS_LEVEL_AVX, %rcx
	je .Lload_avx
	.irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	vmovdqu64 REGISTERS_VECTOR_IN + 64 * \i(%rax), %zmm\i
	.endr
	.irp i, 0,1,2,3,4,5,6,7
	kmovq REGISTERS_MASK_IN + 8 * \i(%rax), %k\i
	.endr
	cmp $REGISTERS_LEVEL_AMX, %rcx
	jne .Lloaded
	ldtilecfg REGISTERS_TILE_CONFIG(%rax)
	mov $64, %edx
	.irp i, 0,1,2,3,4,5,6,7
	tileloadd REGISTERS_TILE_IN + 1024 * \i(%rax,%rdx,1), %tmm\i
	.endr
	jmp .Lloaded
.Lload_avx:
	.irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vmovdqu REGISTERS_VECTOR_IN + 64 * \i(%rax), %ymm\i
	.endr
	jmp .Lloaded
.Lload_sse:
	.irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	movdqu REGISTERS_VECTOR_IN + 64 * \i(%rax), %xmm\i
	.endr
.Lloaded:
	.irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	mov REGISTERS_RED_IN + 8 * \i(%rax), %rcx
	mov %rcx, 8 * \i - 128(%rsp)
	.endr
	cmpq $0, REGISTERS_DIRECTION(%rax)
	je 1f
	std
1:
	/* The comparison's outcome outlives the moves. */
	cmpq $0, REGISTERS_SPINS(%rax)
	mov REGISTERS_GENERAL_IN + 8(%rax), %rbx
	mov REGISTERS_GENERAL_IN + 16(%rax), %rcx
	mov REGISTERS_GENERAL_IN + 24(%rax), %rdx
	mov REGISTERS_GENERAL_IN + 32(%rax), %rsi
	mov REGISTERS_GENERAL_IN + 40(%rax), %rdi
	mov REGISTERS_GENERAL_IN + 48(%rax), %rbp
	.irp i, 8,9,10,11,12,13,14,15
	mov REGISTERS_GENERAL_IN + 8 * \i - 8(%rax), %r\i
	.endr
	mov REGISTERS_GENERAL_IN(%rax), %rax
	je 3f
2:	dec %rcx
	jnz 2b
	jmp 4f
3:	syscall
4:
	/* The state's address back, and rdi's value to where it was. */
	xchg %rdi, (%rsp)
	mov %rax, REGISTERS_GENERAL_OUT(%rdi)
	mov %rbx, REGISTERS_GENERAL_OUT + 8(%rdi)
	mov %rcx, REGISTERS_GENERAL_OUT + 16(%rdi)
	mov %rdx, REGISTERS_GENERAL_OUT + 24(%rdi)
	mov %rsi, REGISTERS_GENERAL_OUT + 32(%rdi)
	mov (%rsp), %rax
	mov %rax, REGISTERS_GENERAL_OUT + 40(%rdi)
	mov %rbp, REGISTERS_GENERAL_OUT + 48(%rdi)
	.irp i, 8,9,10,11,12,13,14,15
	mov %r\i, REGISTERS_GENERAL_OUT + 8 * \i - 8(%rdi)
	.endr
	.irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	mov 8 * \i - 128(%rsp), %rax
	mov %rax, REGISTERS_RED_OUT + 8 * \i(%rdi)
	.endr
	mov %rsp, REGISTERS_SP_OUT(%rdi)
	pushfq
	.cfi_adjust_cfa_offset 8
	popq REGISTERS_FLAGS_OUT(%rdi)
	.cfi_adjust_cfa_offset -8
	cld

	mov REGISTERS_LEVEL(%rdi), %rcx
	cmp $REGISTERS_LEVEL_SSE, %rcx
	je .Lstore_sse
	cmp $REGISTERS_LEVEL_AVX, %rcx
	je .Lstore_avx
	.irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	vmovdqu64 %zmm\i, REGISTERS_VECTOR_OUT + 64 * \i(%rdi)
	.endr
	.irp i, 0,1,2,3,4,5,6,7
	kmovq %k\i, REGISTERS_MASK_OUT + 8 * \i(%rdi)
	.endr
	cmp $REGISTERS_LEVEL_AMX, %rcx
	jne .Lzero_upper
	mov $64, %edx
	.irp i, 0,1,2,3,4,5,6,7
	tilestored %tmm\i, REGISTERS_TILE_OUT + 1024 * \i(%rdi,%rdx,1)
	.endr
	tilerelease
	jmp .Lzero_upper
.Lstore_avx:
	.irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vmovdqu %ymm\i, REGISTERS_VECTOR_OUT + 64 * \i(%rdi)
	.endr
.Lzero_upper:
	vzeroupper
	jmp .Lstored
.Lstore_sse:
	.irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	movdqu %xmm\i, REGISTERS_VECTOR_OUT + 64 * \i(%rdi)
	.endr
.Lstored:
	stmxcsr REGISTERS_MXCSR_OUT(%rdi)
	fnstcw REGISTERS_CONTROL_OUT(%rdi)
	fnstsw REGISTERS_STATUS_OUT(%rdi)
	.irp i, 0,1,2,3,4,5,6,7
	fstpt REGISTERS_X87_OUT + 16 * \i(%rdi)
	.endr
	fninit
	ldmxcsr REGISTERS_MXCSR_PLAIN(%rdi)
	add $ROOM, %rsp
	.cfi_adjust_cfa_offset -ROOM
	.irp register, r15, r14, r13, r12, rbx, rbp
	pop %\register
	.cfi_adjust_cfa_offset -8
	.cfi_restore \register
	.endr
	ret
	.cfi_endproc
	.size registers_hold, . - registers_hold
	.section .note.GNU-stack, "", @progbits
