/* The objects that this limpet makes in targets: the files of images, the two ends of channels, the
 * memory that is shared. A child that is forked meanwhile has copies, which are told by device and
 * inode. Any other process may have them, too, if the target hands them over: that is not ours to
 * take away. Kept for the whole process, the last thousand of them. */
#ifndef LIMPET_INJECTOR_REMOTE_OWN_OBJECTS_H
#define LIMPET_INJECTOR_REMOTE_OWN_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Notes what `fd`, a descriptor of ours, leads to. */
void limpet_own_objects_note(int fd);
/* Notes which execution of a program runs in `pid`: that of a target. */
void limpet_own_objects_note_execution(pid_t pid);
/* Whether `pid` runs one that was noted: a target, what it forked, or what was forked from the same
 * program as it. The auxiliary vector tells, which has the addresses that each execve(2) draws
 * anew. */
bool limpet_own_objects_has_execution(pid_t pid);

/* Whether descriptor `fd` of process `pid` leads to something noted. */
bool limpet_own_objects_has(pid_t pid, int fd);
/* Whether a mapped file with the name of our image is one that was noted. */
bool limpet_own_objects_has_inode(uint64_t inode);

#endif
