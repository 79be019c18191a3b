/* The thunks, to which slots point, and their paths.
 *
 * The thunks have a mapping of their own (limpet_boot.thunks), in front of a page of addresses. A
 * thunk only loads the number of its hook and jumps to the path of its op. When the agent is
 * switched off, or in a forked child, each path is a plain jump to the original (that of the
 * loader's functions is switched off last). Otherwise
 * limpet_path_any saves the arguments and calls limpet_hook_enter. It then either jumps to the
 * original, so that no return address into the agent stays on a stack, or calls it, and
 * limpet_hook_exit records the result. The paths of malloc, and of a free that calls no hooks, do
 * the same with less work; under sampling most calls are plain jumps. At a function's entry,
 * limpet_path_kept does the same and preserves all registers; limpet_path_copied also passes on
 * arguments on the stack. Vector registers are never touched: the agent is compiled without them,
 * and saves them around what it calls of the program at an entry (vectors.S). */
#define FRAME_BYTES 96
/* limpet_path_kept: below the frame, the saved registers and the original's address */
#define KEPT_BYTES 80
#define KEPT_BELOW 176 /* FRAME_BYTES and KEPT_BYTES */
#define KEPT_R10 56
#define KEPT_R11 64
#define KEPT_ORIGINAL 72

/* struct limpet_hook_frame in hook.h */
#define FRAME_HOOK 48
#define FRAME_RESULT 56

/* struct limpet_thread, limpet_hot and limpet_control; hook_paths.c checks these */
#define SHIFT_THREAD 7
#define THREAD_DEPTH 40
#define THREAD_LEFT (40 - 128 * 4096) /* in its struct limpet_own */
#define HOT_THREADS 0
#define HOT_MASK 24
#define HOT_COUNTERS 64
#define HOT_SHIFT 44
#define CONTROL_ALIVE 4
/* struct limpet_found; finder.c checks these */
#define FOUND_BYTES 8
#define FOUND_EH_FRAME 16
#define FOUND_LINK_MAP 24
/* common/sample.h */
#define SAMPLE_EXTRA 16
#define GOLDEN 0x9e3779b97f4a7c15

	.section .thunks, "ax", @progbits
	.balign 4096
	.globl limpet_thunk_code
	.hidden limpet_thunk_code
limpet_thunk_code:
.Lthunks:
	.set	index, 0
	.rept	256
	.balign 16
	.cfi_startproc
	endbr64
	movl	$index, %r11d
	jmp	*.Lthunks+4096+index*8(%rip)
	.cfi_endproc
	.set	index, index + 1
	.endr
	.balign 4096

	.text
	.balign 64
	.globl limpet_paths
	.hidden limpet_paths
limpet_paths:

	/* Expects the hook's number in r11; its original is then at (%r10,%r11,8). */
	.macro	find_original
	leaq	(%r11,%r11,2), %r11
	leaq	limpet_hooks(%rip), %r10
	.endm
	.macro	jump_to_original
	find_original
	jmp	*(%r10,%r11,8)
	.endm
	/* Saves the arguments in the frame at `at`(%rsp). */
	.macro	note_arguments at
	movq	%rdi, \at+0(%rsp)
	movq	%rsi, \at+8(%rsp)
	movq	%rdx, \at+16(%rsp)
	movq	%rcx, \at+24(%rsp)
	movq	%r8, \at+32(%rsp)
	movq	%r9, \at+40(%rsp)
	movq	%r11, \at+FRAME_HOOK(%rsp)
	.endm
	/* `offset`: of the switch, in struct limpet_control. */
	.macro	pass_if_off to=pass, offset=0
	movq	limpet_control(%rip), %r10
	cmpl	$0, \offset(%r10)
	je	\to
	.endm
	.macro	make_frame
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$FRAME_BYTES, %rsp
	.endm
	.macro	drop_frame
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	.endm

	/* Restores all arguments of malloc, realloc and free, and jumps to the original. */
	.macro	go_on_as_kept
	movq	0(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	FRAME_HOOK(%rsp), %r11
	drop_frame
	jump_to_original
	.endm

	.balign 16
pass:
	.cfi_startproc
	jump_to_original
	.cfi_endproc

	/* `enter` tells whether the original is called here, or jumped to. */
	.macro	call_between enter
	make_frame
	note_arguments 0
	movq	%rsp, %rdi
	call	\enter
	movq	0(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	movq	FRAME_HOOK(%rsp), %r11
	testl	%eax, %eax
	jne	1f
	.cfi_remember_state
	drop_frame
	jump_to_original
1:
	.cfi_restore_state
	find_original
	call	*(%r10,%r11,8)
	movq	%rax, FRAME_RESULT(%rsp)
	movq	%rsp, %rdi
	call	limpet_hook_exit
	movq	FRAME_RESULT(%rsp), %rax
	drop_frame
	ret
	.endm

	.balign 16
	.globl limpet_path_any
	.hidden limpet_path_any
	.type limpet_path_any, @function
limpet_path_any:
	.cfi_startproc
	endbr64
	pass_if_off
	call_between limpet_hook_enter
	.cfi_endproc
	.size limpet_path_any, . - limpet_path_any

	/* Not switched off with the others: see limpet_hook_enter_loader. */
	.balign 16
	.globl limpet_path_loader
	.hidden limpet_path_loader
	.type limpet_path_loader, @function
limpet_path_loader:
	.cfi_startproc
	endbr64
	pass_if_off pass, CONTROL_ALIVE
	call_between limpet_hook_enter_loader
	.cfi_endproc
	.size limpet_path_loader, . - limpet_path_loader

	/* Saves the registers that a function may change, except r10 and r11, at `at`(base). */
	.macro	keep_registers at=0, base=%rsp
	movq	%rax, \at+0(\base)
	movq	%rcx, \at+8(\base)
	movq	%rdx, \at+16(\base)
	movq	%rsi, \at+24(\base)
	movq	%rdi, \at+32(\base)
	movq	%r8, \at+40(\base)
	movq	%r9, \at+48(\base)
	.endm
	.macro	restore_registers at=0, base=%rsp
	movq	\at+0(\base), %rax
	movq	\at+8(\base), %rcx
	movq	\at+16(\base), %rdx
	movq	\at+24(\base), %rsi
	movq	\at+32(\base), %rdi
	movq	\at+40(\base), %r8
	movq	\at+48(\base), %r9
	movq	\at+KEPT_R10(\base), %r10
	movq	\at+KEPT_R11(\base), %r11
	.endm

	/* The start of a path at a function's entry, up to the call into the agent. A compiler may
	 * have seen which registers the function leaves alone, and use them across calls of it
	 * (-fipa-ra): so the function and its callers must see the same registers as without
	 * limpet. The inline hook has pushed r11 and r10 (injector/hook/inline_hook.c); the frame
	 * takes r11's place. The target of the final jump is stored below the stack pointer, where
	 * signals leave 128 bytes alone. */
	.macro	begin_kept
	.cfi_def_cfa_offset 24
	endbr64
	pass_if_off pass_kept
	movq	8(%rsp), %r10
	movq	%rbp, 8(%rsp)
	.cfi_offset %rbp, -16
	leaq	8(%rsp), %rbp
	.cfi_def_cfa %rbp, 16
	leaq	-KEPT_BELOW(%rbp), %rsp
	movq	%r10, KEPT_R11(%rsp)
	movq	-8(%rbp), %r10
	movq	%r10, KEPT_R10(%rsp)
	keep_registers
	note_arguments KEPT_BYTES
	find_original
	movq	(%r10,%r11,8), %r10
	movq	%r10, KEPT_ORIGINAL(%rsp)
	.endm
	/* Restores all registers, drops the frame and jumps to the original. */
	.macro	jump_as_kept
	movq	KEPT_ORIGINAL(%rsp), %r10
	movq	%r10, -8(%rbp)
	restore_registers
	drop_frame
	jmp	*-16(%rsp)
	.endm

	/* After the original, with rsp at the saved registers: returns to the caller, with the
	 * registers as the original left them. */
	.macro	end_kept
	keep_registers
	movq	%r10, KEPT_R10(%rsp)
	movq	%r11, KEPT_R11(%rsp)
	movq	%rax, KEPT_BYTES+FRAME_RESULT(%rsp)
	leaq	KEPT_BYTES(%rsp), %rdi
	call	limpet_hook_exit
	restore_registers
	drop_frame
	ret
	.endm

	/* Switched off. The stack is as the inline hook has left it. */
	.balign 16
pass_kept:
	.cfi_startproc
	.cfi_def_cfa_offset 24
	find_original
	movq	(%r10,%r11,8), %r10
	movq	%r10, -8(%rsp)
	popq	%r10
	.cfi_def_cfa_offset 16
	popq	%r11
	.cfi_def_cfa_offset 8
	jmp	*-24(%rsp)
	.cfi_endproc

	.balign 16
	.globl limpet_path_kept
	.hidden limpet_path_kept
	.type limpet_path_kept, @function
limpet_path_kept:
	.cfi_startproc
	begin_kept
	leaq	KEPT_BYTES(%rsp), %rdi
	call	limpet_hook_enter
	testl	%eax, %eax
	jne	1f
	.cfi_remember_state
	jump_as_kept
1:
	.cfi_restore_state
	restore_registers
	call	*KEPT_ORIGINAL(%rsp)
	end_kept
	.cfi_endproc
	.size limpet_path_kept, . - limpet_path_kept

	/* The same for a function that may have arguments on the stack, above its return address.
	 * It gets a copy of them, below the saved registers, with the return address into this path
	 * in place of the caller's. The copy is aligned like the arguments, modulo the 64 bytes
	 * that an argument can require. Between the saved registers and the copy stays the return
	 * address of the call into the agent. It shows that the hook is unfinished
	 * (limpet_entry_witness): the place of the original's own return address depends on the
	 * copy. Afterwards rbp, which the original preserves, leads to the frame. */
	.balign 16
	.globl limpet_path_copied
	.hidden limpet_path_copied
	.type limpet_path_copied, @function
limpet_path_copied:
	.cfi_startproc
	begin_kept
	leaq	KEPT_BYTES(%rsp), %rdi
	call	limpet_hook_enter_copied
	testq	%rax, %rax
	jns	1f
	.cfi_remember_state
	jump_as_kept
1:
	.cfi_restore_state
	movq	%rax, %rcx
	leaq	16(%rbp), %rsi
	negq	%rax
	leaq	-8(%rsp,%rax), %rax
	subq	%rsi, %rax
	andq	$-64, %rax
	leaq	(%rsi,%rax), %rsp
	movq	%rsp, %rdi
	shrq	$3, %rcx
	cld
	rep movsq
	restore_registers -KEPT_BELOW, %rbp
	call	*KEPT_ORIGINAL-KEPT_BELOW(%rbp)
	leaq	-KEPT_BELOW(%rbp), %rsp
	end_kept
	.cfi_endproc
	.size limpet_path_copied, . - limpet_path_copied

	.balign 16
	.globl limpet_path_malloc
	.hidden limpet_path_malloc
	.type limpet_path_malloc, @function
limpet_path_malloc:
	.cfi_startproc
	endbr64
	pass_if_off
	make_frame
	movl	%r11d, %ecx
	movq	%rsp, %r8
	call	limpet_hook_malloc
	testl	%edx, %edx
	jne	2f
	.cfi_remember_state
	drop_frame
	ret
2:
	.cfi_restore_state
	go_on_as_kept
	.cfi_endproc
	.size limpet_path_malloc, . - limpet_path_malloc

	.balign 16
	.globl limpet_path_free
	.hidden limpet_path_free
	.type limpet_path_free, @function
limpet_path_free:
	.cfi_startproc
	endbr64
	pass_if_off
	testq	%rdi, %rdi
	je	pass
	make_frame
	movq	%rdi, 0(%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%r11, FRAME_HOOK(%rsp)
	movl	%r11d, %esi
	movq	%rsp, %rdx
	call	limpet_hook_free
	go_on_as_kept
	.cfi_endproc
	.size limpet_path_free, . - limpet_path_free

	/* _dl_find_object(pc, result), of <dlfcn.h>: returns the tables of a mapped agent, if pc is
	 * in it. Never switched off: while anything leads here, a frame of the agent may be on some
	 * stack. Preserves all registers except r10 and rax. */
	.macro	answer_if_ours else
	movq	%rdi, %r10
	subq	limpet_found(%rip), %r10
	cmpq	FOUND_BYTES+limpet_found(%rip), %r10
	jae	\else
	movq	$0, (%rsi)
	movq	limpet_found(%rip), %r10
	movq	%r10, 8(%rsi)
	addq	FOUND_BYTES+limpet_found(%rip), %r10
	movq	%r10, 16(%rsi)
	leaq	FOUND_LINK_MAP+limpet_found(%rip), %r10
	movq	%r10, 24(%rsi)
	movq	FOUND_EH_FRAME+limpet_found(%rip), %r10
	movq	%r10, 32(%rsi)
	xorl	%eax, %eax
	.endm

	.balign 16
	.globl limpet_path_finder
	.hidden limpet_path_finder
	.type limpet_path_finder, @function
limpet_path_finder:
	.cfi_startproc
	endbr64
	answer_if_ours pass
	ret
	.cfi_endproc
	.size limpet_path_finder, . - limpet_path_finder

	/* The same at the function's entry. The stack is as the inline hook has left it. */
	.balign 16
	.globl limpet_path_finder_kept
	.hidden limpet_path_finder_kept
	.type limpet_path_finder_kept, @function
limpet_path_finder_kept:
	.cfi_startproc
	.cfi_def_cfa_offset 24
	endbr64
	answer_if_ours pass_kept
	popq	%r10
	.cfi_def_cfa_offset 16
	popq	%r11
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size limpet_path_finder_kept, . - limpet_path_finder_kept

	/* In the middle of a function, before the relocated instruction. The inline hook has pushed
	 * r11 and r10, 128 bytes below the stack pointer (injector/hook/inline_hook.c). All
	 * registers are preserved, also the flags. The last word popped is the address to continue
	 * at; it replaces the pushed r11. */
	.balign 16
	.globl limpet_path_probe
	.hidden limpet_path_probe
	.type limpet_path_probe, @function
limpet_path_probe:
	.cfi_startproc
	.cfi_undefined %rip
	endbr64
	pushfq
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	48(%rsp)
	pushq	48(%rsp)
	pushq	%r9
	pushq	%r8
	pushq	%rdi
	pushq	%rsi
	pushq	%rbp
	pushq	%rsp
	pushq	%rbx
	pushq	%rdx
	pushq	%rcx
	pushq	%rax
	movq	%rsp, %rdi
	movl	%r11d, %esi
	movq	%rsp, %rbx
	andq	$-16, %rsp
	cld
	call	limpet_hook_probe
	movq	%rbx, %rsp
	movq	%rax, 144(%rsp)
	popq	%rax
	popq	%rcx
	popq	%rdx
	popq	%rbx
	leaq	8(%rsp), %rsp
	popq	%rbp
	popq	%rsi
	popq	%rdi
	popq	%r8
	popq	%r9
	popq	%r10
	popq	%r11
	popq	%r12
	popq	%r13
	popq	%r14
	popq	%r15
	popfq
	leaq	8(%rsp), %rsp
	ret	$128
	.cfi_endproc
	.size limpet_path_probe, . - limpet_path_probe

	/* Under sampling, before limpet_path_any: a call that is not sampled is a plain jump. These
	 * paths preserve all arguments of their ops. */
	.macro	hash to
	movabsq	$GOLDEN, %r8
	imulq	%r8, \to
	.endm

	/* limpet_sample_passes() with the charge in rax, unless the thread's state is not in the
	 * first entry probed, or is in a hook: then limpet_hook_enter decides. */
	.macro	pass_if_not_sampled
	movq	%fs:0, %r10
	movq	%r10, %rcx
	shrq	$6, %rcx
	hash	%rcx
	shrq	$32, %rcx
	andl	HOT_MASK+limpet_hot(%rip), %ecx
	shlq	$SHIFT_THREAD, %rcx
	addq	HOT_THREADS+limpet_hot(%rip), %rcx
	cmpq	%r10, (%rcx)
	jne	limpet_path_any
	cmpq	$0, THREAD_DEPTH(%rcx)
	jne	limpet_path_any
	movq	THREAD_LEFT(%rcx), %r8
	subq	%rax, %r8
	jbe	limpet_path_any
	movq	%r8, THREAD_LEFT(%rcx)
	jump_to_original
	.endm

	.balign 16
	.globl limpet_path_sampled_malloc
	.hidden limpet_path_sampled_malloc
	.type limpet_path_sampled_malloc, @function
limpet_path_sampled_malloc:
	.cfi_startproc
	endbr64
	pass_if_off
	movq	%rdi, %rax
	addq	$SAMPLE_EXTRA, %rax
	jc	pass
	pass_if_not_sampled
	.cfi_endproc
	.size limpet_path_sampled_malloc, . - limpet_path_sampled_malloc

	.balign 16
	.globl limpet_path_sampled_calloc
	.hidden limpet_path_sampled_calloc
	.type limpet_path_sampled_calloc, @function
limpet_path_sampled_calloc:
	.cfi_startproc
	endbr64
	pass_if_off
	movq	%rdi, %rax
	mulq	%rsi
	jo	pass
	addq	$SAMPLE_EXTRA, %rax
	jc	pass
	pass_if_not_sampled
	.cfi_endproc
	.size limpet_path_sampled_calloc, . - limpet_path_sampled_calloc

	/* limpet_sample_may_know() */
	.balign 16
	.globl limpet_path_sampled_free
	.hidden limpet_path_sampled_free
	.type limpet_path_sampled_free, @function
limpet_path_sampled_free:
	.cfi_startproc
	endbr64
	pass_if_off
	movq	%rdi, %rax
	shrq	$4, %rax
	hash	%rax
	movl	HOT_SHIFT+limpet_hot(%rip), %ecx
	shrq	%cl, %rax
	movq	HOT_COUNTERS+limpet_hot(%rip), %r10
	cmpb	$0, (%r10,%rax)
	jne	limpet_path_any
	jump_to_original
	.cfi_endproc
	.size limpet_path_sampled_free, . - limpet_path_sampled_free

	/* The end of all paths: return addresses into them are between limpet_paths and here. */
	.globl limpet_paths_end
	.hidden limpet_paths_end
limpet_paths_end:

	.section .note.GNU-stack, "", @progbits
