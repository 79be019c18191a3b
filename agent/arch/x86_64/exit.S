/* limpet_boot_exit(sp, gadget, map, bytes): unmaps the code that it runs in. The system call is
 * made by an instruction outside of the mapping; the `ret` after it takes the restorer's address
 * from the prepared frame, and rt_sigreturn resumes the thread where it was stopped. */
	.section .boot, "ax", @progbits
	.balign 16
	.globl limpet_boot_exit
	.hidden limpet_boot_exit
	.type limpet_boot_exit, @function
limpet_boot_exit:
	.cfi_startproc
	.cfi_undefined %rip
	endbr64
	movq	%rdi, %rsp
	movq	%rsi, %r10
	movq	%rdx, %rdi
	movq	%rcx, %rsi
	movl	$11, %eax
	jmp	*%r10
	.cfi_endproc
	.size limpet_boot_exit, . - limpet_boot_exit
	.section .note.GNU-stack, "", @progbits
