/* Frames as compilers do not make them. Each function: rdi a function, rsi its argument. */
	.text

/* Described, by the stack pointer alone, which moves between the calls; rbp holds no frame. */
	.globl shape_pushes
	.type shape_pushes, @function
shape_pushes:
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	movq	%rdi, %rbx
	movq	$-1, %rbp
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	movq	%rsi, %rdi
	call	*%rbx
	movq	(%rsp), %rdi
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	call	*%rbx
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size shape_pushes, . - shape_pushes

/* Described by rbp, which is not at the usual place of the frame. */
	.globl shape_framed
	.type shape_framed, @function
shape_framed:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	leaq	-32(%rsp), %rbp
	.cfi_def_cfa %rbp, 48
	subq	$96, %rsp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	call	*%rax
	addq	$96, %rsp
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size shape_framed, . - shape_framed

/* Not described: it keeps the chain of frame pointers, and that is all there is. */
	.globl shape_undescribed
	.type shape_undescribed, @function
shape_undescribed:
	pushq	%rbp
	movq	%rsp, %rbp
	subq	$64, %rsp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	call	*%rax
	leave
	ret
	.size shape_undescribed, . - shape_undescribed
	.section .note.GNU-stack, "", @progbits
