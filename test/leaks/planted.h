/* What the programs of known truth share (test/leaks/truths). Each defines plant(), which leaves
 * its defect; main() of planted.c calls it, wipes what that left on the stack and in registers,
 * prints "READY PID", and rests in pause(2). */
#ifndef LIMPET_TEST_LEAKS_PLANTED_H
#define LIMPET_TEST_LEAKS_PLANTED_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Not inlined: a frame that a report has to name. */
#define PLANTED_FRAME __attribute__((noinline, noclone, noipa))

void plant(void);

/* Zeros of the allocator, which no optimization removes. */
void *block(size_t bytes);

/* Calls it, and leaves no copy of a pointer in registers or in the stack below. */
void wiped(void (*step)(void));

/* A thread that never ends. Returns when it is in pause(2), by pause_here(): what is in its frames
 * and registers then stays there. Made once in a program. */
void start_thread(void *(*run)(void *));
/* The same for one that calls step, wiped, and holds nothing itself. */
void start_wiped_thread(void (*step)(void));
/* A thread that goes on for ever; returns when it has called `moving`. */
void start_mover(void *(*run)(void *));
void moving(void);

/* For ever. Registers that a call may change hold nothing. */
__attribute__((noreturn)) void pause_here(void);
/* "READY PID", then pause_here(): where plant() does not return. */
__attribute__((noreturn)) void rest(void);

/* Whether this is the program's name: some leave another defect under another. */
int called(const char *name);

/* Prints why, and ends the program with status 70. */
__attribute__((noreturn)) void broken(const char *what);

#ifdef __cplusplus
}
#endif
#endif
