/* The entries that slots point at, and the paths through them.
 *
 * The thunks are copied to a mapping of their own (limpet_boot.thunks), in front of a page of
 * addresses. A thunk only says which hook it is, and takes the path of its op. Switched off, or in the child of
 * a fork, each path is a plain jump. Otherwise limpet_path_any keeps the arguments, asks
 * limpet_hook_enter, and either jumps to the original as if it had never been there (no return
 * address of ours stays on any stack) or calls it and lets limpet_hook_exit record the result. Those
 * of malloc and of a free that calls nothing of ours do the same with less; those under sampling let
 * most calls pass. Where a function begins limpet_path_kept does the same and keeps all registers,
 * and limpet_path_copied arguments on the stack, too. Vector registers are never touched: the agent
 * is compiled without them. */
#define FRAME_BYTES 96
/* limpet_path_kept's, below the frame: registers, and the function that is called */
#define KEPT_BYTES 80
#define KEPT_BELOW 176 /* FRAME_BYTES and KEPT_BYTES */
#define KEPT_R10 56
#define KEPT_R11 64
#define KEPT_ORIGINAL 72

/* struct limpet_frame in agent.h */
#define FRAME_HOOK 48
#define FRAME_RESULT 56

/* struct limpet_thread and struct limpet_hot; hook.c checks these */
#define SHIFT_THREAD 7
#define THREAD_DEPTH 40
#define THREAD_LEFT 112
#define HOT_THREADS 0
#define HOT_MASK 24
#define HOT_COUNTERS 64
#define HOT_SHIFT 44
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
	.rept	128
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

	/* With the hook in r11: its original is at (%r10,%r11,8). */
	.macro	find_original
	leaq	(%r11,%r11,2), %r11
	leaq	limpet_hooks(%rip), %r10
	.endm
	.macro	jump_to_original
	find_original
	jmp	*(%r10,%r11,8)
	.endm
	/* Of a frame that lies `at` above the stack's end. */
	.macro	note_arguments at
	movq	%rdi, \at+0(%rsp)
	movq	%rsi, \at+8(%rsp)
	movq	%rdx, \at+16(%rsp)
	movq	%rcx, \at+24(%rsp)
	movq	%r8, \at+32(%rsp)
	movq	%r9, \at+40(%rsp)
	movq	%r11, \at+FRAME_HOOK(%rsp)
	.endm
	.macro	pass_if_off
	movq	limpet_control(%rip), %r10
	cmpl	$0, (%r10)
	je	pass
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

	/* With all the arguments that malloc, realloc and free have. */
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

	.balign 16
	.globl limpet_path_any
	.hidden limpet_path_any
	.type limpet_path_any, @function
limpet_path_any:
	.cfi_startproc
	endbr64
	pass_if_off
	make_frame
	note_arguments 0
	movq	%rsp, %rdi
	call	limpet_hook_enter
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
	.cfi_endproc
	.size limpet_path_any, . - limpet_path_any

	/* All that a function may change, but r10 and r11: `at` from the register `base`. */
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

	/* Where a function begins: the compiler that made its callers may have seen which registers it
	 * leaves alone, and use them across the call (-fipa-ra). Neither it nor they see others than
	 * without us. r11 and r10 have been pushed (injector/hook/inline_hook.c); the frame takes r11's place. What
	 * is to be jumped to stands below the stack's end, where signals leave 128 bytes alone. Such a
	 * path begins so, up to what it asks the agent. */
	.macro	begin_kept
	.cfi_def_cfa_offset 24
	endbr64
	movq	limpet_control(%rip), %r10
	cmpl	$0, (%r10)
	je	pass_kept
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
	/* Jumps to the original with all as it was, before the frame is dropped. */
	.macro	jump_as_kept
	movq	KEPT_ORIGINAL(%rsp), %r10
	movq	%r10, -8(%rbp)
	restore_registers
	drop_frame
	jmp	*-16(%rsp)
	.endm

	/* Behind the original, with the stack's end at what is kept: to the caller, with all that the
	 * original left in the registers. */
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

	/* Switched off: as the near memory has left the stack. */
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

	/* The same for a function that may have arguments on the stack, which stand above its return
	 * address: below what is kept lies a copy of them, with the return address into this path in
	 * place of the caller's. The copy is aligned as the original is, to the 64 bytes that an
	 * argument can ask for. Between the two stays the return address of the call of the agent:
	 * where the function's own stands depends on the copy, and so this one says that the hook is
	 * unfinished (limpet_entry_witness). Behind it all is found by rbp, which the function leaves
	 * as it was. */
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

	/* _dl_find_object(pc, result), of <dlfcn.h>: tells where the tables of a mapped agent are, if
	 * pc is in it. In no path switched off: as long as something leads here, a frame of ours may be
	 * on some stack. Keeps all registers but r10 and rax. */
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

	/* Where the function begins: as the near memory has left the stack. */
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

	/* In the midst of a function, in front of the instruction that has moved: r10 and r11 have been
	 * pushed 128 bytes below (injector/hook/inline_hook.c). Everything is kept, flags too. The last word
	 * that is popped is where it goes on; the one of r11 takes it. */
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

	/* Under sampling, in front of limpet_path_any: a call that is not sampled is a plain jump.
	 * These leave all arguments of their ops alone. */
	.macro	hash to
	movabsq	$GOLDEN, %r8
	imulq	%r8, \to
	.endm

	/* limpet_sample_passes() with the charge in rax, unless the thread's state is not in its
	 * first place or not at rest: then limpet_hook_enter knows more. */
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

	/* Behind all paths: return addresses into them lie between limpet_paths and here. */
	.globl limpet_paths_end
	.hidden limpet_paths_end
limpet_paths_end:

	.section .note.GNU-stack, "", @progbits
