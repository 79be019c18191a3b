/* The entries that slots point at, and the one way through them.
 *
 * A thunk only says which hook it is. The trampoline keeps the arguments, asks limpet_hook_enter,
 * and either jumps to the original as if it had never been there (no return address of ours stays
 * on any stack) or calls it and lets limpet_hook_exit record the result. Vector registers are never
 * touched: the agent is compiled without them. */
#define HOOK_BYTES 24 /* sizeof(struct limpet_hook) */
#define FRAME_BYTES 96

/* struct limpet_frame in agent.h */
#define FRAME_HOOK 48
#define FRAME_RESULT 56

	.text
	.balign 64
	.globl limpet_thunks
	.hidden limpet_thunks
limpet_thunks:
	.set	index, 0
	.rept	128
	.balign 16
	.cfi_startproc
	endbr64
	movl	$index, %r11d
	jmp	limpet_trampoline
	.cfi_endproc
	.set	index, index + 1
	.endr

	.balign 16
	.type limpet_trampoline, @function
limpet_trampoline:
	.cfi_startproc
	movq	limpet_control(%rip), %r10
	cmpl	$0, (%r10)
	jne	1f
	/* Switched off, or the child of a fork: be a plain jump. */
	leaq	limpet_hooks(%rip), %r10
	leaq	(%r11,%r11,2), %r11
	jmp	*(%r10,%r11,8)
1:
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$FRAME_BYTES, %rsp
	movq	%rdi, 0(%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rcx, 24(%rsp)
	movq	%r8, 32(%rsp)
	movq	%r9, 40(%rsp)
	movq	%r11, FRAME_HOOK(%rsp)
	movq	%rsp, %rdi
	call	limpet_hook_enter
	movq	0(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	movq	FRAME_HOOK(%rsp), %r11
	leaq	(%r11,%r11,2), %r11
	leaq	limpet_hooks(%rip), %r10
	testl	%eax, %eax
	jne	2f
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	jmp	*(%r10,%r11,8)
2:
	.cfi_restore_state
	call	*(%r10,%r11,8)
	movq	%rax, FRAME_RESULT(%rsp)
	movq	%rsp, %rdi
	call	limpet_hook_exit
	movq	FRAME_RESULT(%rsp), %rax
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size limpet_trampoline, . - limpet_trampoline
	.section .note.GNU-stack, "", @progbits
