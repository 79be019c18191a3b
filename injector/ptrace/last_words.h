/* A word in shared memory by which others learn that this process has died, however that may be.
 *
 * The kernel sets FUTEX_OWNER_DIED in it (get_robust_list(2),
 * Documentation/locking/robust-futex-ABI), also after SIGKILL: an entry of the calling thread's
 * list, which stands in memory of ours, so that nobody who can write to the word leads the kernel
 * anywhere. One word a process; the thread has to be one that lives until the end. */
#ifndef LIMPET_INJECTOR_PTRACE_LAST_WORDS_H
#define LIMPET_INJECTOR_PTRACE_LAST_WORDS_H

#include <stdint.h>

/* Puts the thread's number into the word. On a failure 0 is there: its end will not be told. */
void limpet_last_words_prepare(uint32_t *word);
/* The word is not to be written to any more: its memory goes. */
void limpet_last_words_forget(void);

#endif
