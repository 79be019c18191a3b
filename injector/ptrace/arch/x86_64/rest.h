/* The rest of a system call that a stop has cut short (x86-64).
 *
 * Such a call has moved a part of its bytes and returns their number, as after a signal, though
 * none came. Few programs expect that of a descriptor that blocks. So the thread, when it is
 * released, first makes the call for what is left: traced, to add up the results, but not held; a
 * signal ends that, as it would have ended the call.
 *
 * It is made for five seconds at most, where it is not certain that nothing else has cut the call
 * short, or there is no frame (see below), for 0.3: then it is cut short after all.
 *
 * If limpet ends meanwhile, a thread that was hijacked goes on by its sigreturn frame, which then
 * says that all was moved: right unless something cuts the rest, too. Another one has no frame, and
 * gets the result of the rest alone. */
#ifndef LIMPET_INJECTOR_PTRACE_ARCH_REST_H
#define LIMPET_INJECTOR_PTRACE_ARCH_REST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* Of a thread that stands with these registers; NULL: its call was not cut short, or it cannot be
 * told what is left: only of write and writev to pipes and stream sockets, of send, sendmsg without
 * control data, sendfile, and recv and recvmsg with MSG_WAITALL of stream sockets, where they block
 * without a time limit, and of getrandom. */
struct limpet_rest;
struct limpet_rest *limpet_rest_new(pid_t pid, pid_t tid, const struct user_regs_struct *regs);
/* It was hijacked: the call is made there (`syscall; ret`), with the stack pointer at its sigreturn
 * frame, in which its result is at `answer`. */
void limpet_rest_use_frame(struct limpet_rest *rest, uint64_t syscall, uint64_t sp,
			   uint64_t answer);
/* In an event stop, with its own registers written: resumes it. Frees on failure. */
int limpet_rest_start(struct limpet_rest *rest);
/* It has not stopped to enter the call yet. */
bool limpet_rest_is_starting(const struct limpet_rest *rest);
/* A sigreturn frame ends the call if we do. */
bool limpet_rest_has_frame(const struct limpet_rest *rest);
/* It has stopped, with that status of waitpid(2). True: it goes on. False: it has its own registers
 * and the result, was detached, and is freed. From handlers, too. */
bool limpet_rest_stopped(struct limpet_rest *rest, int status);
/* Cuts it short if it has taken too long; limpet_rest_stopped() follows. From handlers, too. */
void limpet_rest_bound(struct limpet_rest *rest);
/* For who does nothing else meanwhile: returns when it was detached, or is gone. */
void limpet_rest_wait(struct limpet_rest *rest);
/* It is gone. */
void limpet_rest_free(struct limpet_rest *rest);

#endif
