/* Functions of an allocator that change nothing but what they answer, and a caller that uses all
 * other registers across the calls: what a compiler may do where it sees both (-fipa-ra).
 *
 *	void *keeps_take(size_t bytes): the next 64 bytes at keeps_next
 *	void keeps_give(void *block): counts in keeps_given
 *	void keeps_call(struct keeps_registers *registers, bool give): loads the registers, calls one
 *		of them, and stores what the registers are then */
	.text
	.balign 16
	.globl keeps_take
	.type keeps_take, @function
keeps_take:
	.cfi_startproc
	movq	keeps_next(%rip), %rax
	addq	$64, keeps_next(%rip)
	ret
	.cfi_endproc
	.size keeps_take, . - keeps_take

	.balign 16
	.globl keeps_give
	.type keeps_give, @function
keeps_give:
	.cfi_startproc
	incq	keeps_given(%rip)
	ret
	.cfi_endproc
	.size keeps_give, . - keeps_give

	.balign 16
	.globl keeps_call
	.type keeps_call, @function
keeps_call:
	.cfi_startproc
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movq	%rdi, %rbx
	movl	%esi, %ebp
	movq	0(%rbx), %rax
	movq	8(%rbx), %rcx
	movq	16(%rbx), %rdx
	movq	24(%rbx), %rsi
	movq	32(%rbx), %rdi
	movq	40(%rbx), %r8
	movq	48(%rbx), %r9
	movq	56(%rbx), %r10
	movq	64(%rbx), %r11
	movq	72(%rbx), %xmm0
	movq	80(%rbx), %xmm15
	testl	%ebp, %ebp
	jne	1f
	call	keeps_take
	jmp	2f
1:	call	keeps_give
2:	movq	%rax, 0(%rbx)
	movq	%rcx, 8(%rbx)
	movq	%rdx, 16(%rbx)
	movq	%rsi, 24(%rbx)
	movq	%rdi, 32(%rbx)
	movq	%r8, 40(%rbx)
	movq	%r9, 48(%rbx)
	movq	%r10, 56(%rbx)
	movq	%r11, 64(%rbx)
	movq	%xmm0, 72(%rbx)
	movq	%xmm15, 80(%rbx)
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
	.cfi_endproc
	.size keeps_call, . - keeps_call
	.section .note.GNU-stack, "", @progbits
