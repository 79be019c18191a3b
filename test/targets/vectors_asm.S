#include "test/targets/vectors.h"

	.macro	of_16 opcode, kind, is_load
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	.if	\is_load
	\opcode	VECTORS_ALL+64*\i(%rdi), %\kind\i
	.else
	\opcode	%\kind\i, VECTORS_ALL+64*\i(%rdi)
	.endif
	.endr
	.endm

	.text
	.balign 16
	.globl vectors_load
	.type vectors_load, @function
vectors_load:
	.cfi_startproc
	movl	VECTORS_FEATURES(%rdi), %eax
	xorl	%edx, %edx
	testl	%eax, %eax
	je	1f
	xrstor	first_state(%rip)
1:	cmpl	$VECTORS_AVX, VECTORS_LEVEL(%rdi)
	jb	2f
	je	3f
	of_16	vmovdqa64, zmm, 1
	.irp	i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vmovdqa64 VECTORS_ALL+64*\i(%rdi), %zmm\i
	.endr
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq	VECTORS_MASKS+8*\i(%rdi), %k\i
	.endr
	jmp	4f
2:	of_16	movaps, xmm, 1
	jmp	4f
3:	of_16	vmovdqa, ymm, 1
4:	ldmxcsr	VECTORS_MXCSR(%rdi)
	ret
	.cfi_endproc
	.size vectors_load, . - vectors_load

	.balign 16
	.type vectors_store, @function
vectors_store:
	.cfi_startproc
	stmxcsr	VECTORS_MXCSR(%rdi)
	cmpl	$VECTORS_AVX, VECTORS_BEST(%rdi)
	jb	1f
	je	2f
	of_16	vmovdqa64, zmm, 0
	.irp	i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vmovdqa64 %zmm\i, VECTORS_ALL+64*\i(%rdi)
	.endr
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq	%k\i, VECTORS_MASKS+8*\i(%rdi)
	.endr
	vzeroupper
	jmp	3f
1:	of_16	movaps, xmm, 0
	jmp	3f
2:	of_16	vmovdqa, ymm, 0
	vzeroupper
3:	ldmxcsr	first_state+24(%rip)
	ret
	.cfi_endproc
	.size vectors_store, . - vectors_store

	.balign 16
	.globl vectors_call
	.type vectors_call, @function
vectors_call:
	.cfi_startproc
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	movq	%rdi, %rbx
	movq	%rdx, %r10
	call	vectors_load
	movq	%rsi, %rax
	movq	%r10, %rdi
	movq	%rcx, %rsi
	movq	%r8, %rdx
	movq	%r9, %rcx
	call	*%rax
	movq	%rbx, %rdi
	call	vectors_store
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
	.cfi_endproc
	.size vectors_call, . - vectors_call

	/* For xrstor: nothing is in use. */
	.section .rodata
	.balign 64
first_state:
	.zero	24
	.long	0x1f80, 0xffff
	.zero	544
	.section .note.GNU-stack, "", @progbits
