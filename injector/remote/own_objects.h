/* The objects that this limpet makes in targets: the files of images, both ends of channels, the
 * shared memory. A child that is forked meanwhile has copies, which are recognized by device and
 * inode. Any other process may have them, too, if the target passes them on: limpet does not close
 * those. Kept for the lifetime of limpet, the last thousand of them. */
#ifndef LIMPET_INJECTOR_REMOTE_OWN_OBJECTS_H
#define LIMPET_INJECTOR_REMOTE_OWN_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Notes the object of `fd`, a descriptor of ours. */
void limpet_own_objects_note(int fd);
/* Notes which execution of a program runs in `pid`, a target. */
void limpet_own_objects_note_execution(pid_t pid);
/* Whether `pid` runs one that was noted: a target, a process that it forked, or one forked from the
 * same execution. The auxiliary vector identifies it by the addresses that each execve(2) chooses
 * at random. */
bool limpet_own_objects_has_execution(pid_t pid);

/* Whether descriptor `fd` of process `pid` refers to an object that was noted. */
bool limpet_own_objects_has(pid_t pid, int fd);
/* Whether a mapped file with the name of our image is one that was noted. */
bool limpet_own_objects_has_inode(uint64_t inode);

#endif
