/* --debug: prints each step that limpet takes in a process (injector/ptrace/step.h) on stderr, one
 * line a step: milliseconds since the first, thread, what, how long it took. While a thread is held
 * nothing is written, since a slow terminal would hold it: lines are kept until none is. */
#ifndef LIMPET_CLI_DEBUG_H
#define LIMPET_CLI_DEBUG_H

/* From here to the end of the process. Main thread; a second call does nothing. */
void limpet_debug_begin(void);
/* If LIMPET_DEBUG is set, and not to "0" or "". */
void limpet_debug_begin_if_set(void);

#endif
