/* uint64_t limpet_call_beside(uint64_t a, uint64_t b, uint64_t c, uint64_t function)
 *
 * Calls a function of the program's and preserves all vector registers, their masks and MXCSR. x87
 * registers are not: no compiler keeps anything there across a call, whatever the callee leaves
 * alone, and their control word is the callee's to preserve.
 *
 * xrstor alone takes longer than all else that a hook does. So registers are stored one by one, and
 * only what is in use: after a 256-bit load, SSE instructions are slow until the next vzeroupper,
 * and a program without AVX has none. */

/* struct limpet_vectors in common/wire.h; start.c checks these */
#define VECTORS_MASK 0
#define VECTORS_BYTES 4
#define VECTORS_BY_HAND 8
/* Features of the extended state. */
#define AVX (1 << 2)
#define MASKS (1 << 5)
#define UPPER (1 << 6)  /* halves of zmm0 to zmm15 */
#define HIGHER (1 << 7) /* zmm16 to zmm31 */
/* The area on the stack: it has the header at least, and so much as the processor has registers. */
#define AT_MXCSR 0
#define AT_RESULT 8
#define AT_MASKS 64
#define AT_LOWER 128
#define AT_HIGHER 1152
#define AT_HEADER 512 /* of xsave */

	.macro	store_lower opcode, kind
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\opcode	%\kind\i, AT_LOWER+64*\i(%rsp)
	.endr
	.endm
	.macro	load_lower opcode, kind
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\opcode	AT_LOWER+64*\i(%rsp), %\kind\i
	.endr
	.endm
	.macro	clear_header
	xorl	%edx, %edx
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7
	movq	%rdx, AT_HEADER+8*\i(%rsp)
	.endr
	.endm

	.text
	.balign 16
	.globl limpet_call_beside
	.hidden limpet_call_beside
	.type limpet_call_beside, @function
limpet_call_beside:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rbx
	.cfi_offset %rbx, -24
	movq	%rcx, %r10
	movq	%rdx, %r11
	movl	VECTORS_BYTES+limpet_vectors(%rip), %eax
	subq	%rax, %rsp
	andq	$-64, %rsp
	movl	VECTORS_MASK+limpet_vectors(%rip), %ebx
	cmpl	$0, VECTORS_BY_HAND+limpet_vectors(%rip)
	je	.Lwhole

	/* rbx: what is in use besides xmm0 to xmm15. */
	testl	%ebx, %ebx
	je	1f
	movl	$1, %ecx
	xgetbv
	andl	%eax, %ebx
1:	stmxcsr	AT_MXCSR(%rsp)
	testl	$UPPER, %ebx
	jne	2f
	testl	$AVX, %ebx
	jne	3f
	store_lower movaps, xmm
	jmp	4f
2:	store_lower vmovdqa64, zmm
	jmp	4f
3:	store_lower vmovdqa, ymm
4:	testl	$MASKS, %ebx
	je	5f
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq	%k\i, AT_MASKS+8*\i(%rsp)
	.endr
5:	testl	$HIGHER, %ebx
	je	6f
	.irp	i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vmovdqa64 %zmm\i, AT_HIGHER+64*(\i-16)(%rsp)
	.endr
6:	movq	%r11, %rdx
	call	*%r10
	movq	%rax, AT_RESULT(%rsp)

	testl	$HIGHER, %ebx
	je	1f
	.irp	i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vmovdqa64 AT_HIGHER+64*(\i-16)(%rsp), %zmm\i
	.endr
1:	testl	$MASKS, %ebx
	je	2f
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq	AT_MASKS+8*\i(%rsp), %k\i
	.endr
2:	testl	$UPPER, %ebx
	jne	4f
	testl	$AVX, %ebx
	jne	3f
	testl	$AVX, VECTORS_MASK+limpet_vectors(%rip)
	je	1f
	vzeroupper
1:	load_lower movaps, xmm
	jmp	5f
3:	load_lower vmovdqa, ymm
	jmp	5f
4:	load_lower vmovdqa64, zmm
5:	ldmxcsr	AT_MXCSR(%rsp)
	/* What only came in use meanwhile becomes 0 again. */
	notl	%ebx
	andl	VECTORS_MASK+limpet_vectors(%rip), %ebx
	andl	$MASKS | HIGHER, %ebx
	je	6f
	movl	$1, %ecx
	xgetbv
	andl	%ebx, %eax
	je	6f
	clear_header
	xrstor	(%rsp)
6:	movq	AT_RESULT(%rsp), %rax
.Lend:
	movq	-8(%rbp), %rbx
	.cfi_remember_state
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	.cfi_restore %rbx
	ret
	.cfi_restore_state

	/* A processor that does not tell what is in use, or has registers that are not known here. */
.Lwhole:
	movl	%ebx, %eax
	clear_header
	xsave	(%rsp)
	movq	%r11, %rdx
	call	*%r10
	movq	%rax, %rcx
	movl	%ebx, %eax
	xorl	%edx, %edx
	xrstor	(%rsp)
	movq	%rcx, %rax
	jmp	.Lend
	.cfi_endproc
	.size limpet_call_beside, . - limpet_call_beside

	.section .note.GNU-stack, "", @progbits
