/* The files that this limpet makes in targets: of images and shared memory. A child that is forked
 * meanwhile has mappings of them, too. Kept for the lifetime of limpet, the last thousand of them.
 */
#ifndef LIMPET_INJECTOR_REMOTE_OWN_OBJECTS_H
#define LIMPET_INJECTOR_REMOTE_OWN_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Notes a file by its inode: all of ours are on one file system. */
void limpet_own_objects_note(uint64_t inode);
/* Notes which execution of a program runs in `pid`, a target. */
void limpet_own_objects_note_execution(pid_t pid);
/* Whether `pid` runs one that was noted: a target, a process that it forked, or one forked from the
 * same execution. The auxiliary vector identifies it by the addresses that each execve(2) chooses
 * at random. */
bool limpet_own_objects_has_execution(pid_t pid);

/* Whether a mapped file with one of our names is one that was noted. */
bool limpet_own_objects_has_inode(uint64_t inode);

#endif
