/* A word in shared memory that tells others that this process has died, in whatever way.
 *
 * The kernel sets FUTEX_OWNER_DIED in it (get_robust_list(2),
 * Documentation/locking/robust-futex-ABI), also after SIGKILL. The word is an entry of the calling
 * thread's list of robust futexes. The list itself is in memory of ours alone, so that nobody who
 * can write to the word controls where the kernel writes. One word per process; the calling thread
 * must live until the process ends. */
#ifndef LIMPET_INJECTOR_PTRACE_ROBUST_WORD_H
#define LIMPET_INJECTOR_PTRACE_ROBUST_WORD_H

#include <stdint.h>

/* Stores the thread's tid in the word. On failure the word is 0, and the death will not be
 * reported. */
void limpet_robust_word_register(uint32_t *word);
/* To be called before the word's memory is unmapped. Nothing if another one was registered since.
 */
void limpet_robust_word_unregister(const uint32_t *word);

#endif
