/* The complete list of system calls that a capture makes in threads of its target, with the
 * arguments that filters examine. Whoever adds a system call to the agent, to the boot stub or to a
 * remote step adds it here. Arguments have the values of the real calls, or a plausible one if any
 * would do. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "injector/preflight/seccomp_eval.h"

#define POINTER LIMPET_SECCOMP_POINTER
#define FD 900
#define BYTES 65536
#define ANY_FD 0xffffffffu
#define CWD 0xffffff9cu /* AT_FDCWD as the kernel's int */

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define INJECTOR "the injector"
#define MAKER "a thread of the injector's"
#define BOOT "the boot stub"
#define LOADER "the dynamic linker"
#define AGENT "the agent"

const struct limpet_seccomp_call limpet_seccomp_calls[] = {
	/* a thread with a descriptor table of its own, which makes and maps what is shared */
	{"clone",
	 INJECTOR,
	 SYS_clone,
	 false,
	 {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_VFORK, POINTER}},
	{"close_range", MAKER, SYS_close_range, false, {0, ~0u, CLOSE_RANGE_UNSHARE}},
	{"memfd_create", MAKER, SYS_memfd_create, false, {POINTER, MFD_CLOEXEC | MFD_NOEXEC_SEAL}},
	{"memfd_create",
	 MAKER,
	 SYS_memfd_create,
	 false,
	 {POINTER, MFD_CLOEXEC | MFD_ALLOW_SEALING}},
	{"mmap",
	 MAKER,
	 SYS_mmap,
	 false,
	 {POINTER, BYTES, PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, FD}},
	{"mmap",
	 MAKER,
	 SYS_mmap,
	 false,
	 {POINTER, BYTES, PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, FD}},
	{"mmap",
	 MAKER,
	 SYS_mmap,
	 false,
	 {POINTER, BYTES, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE, FD}},
	/* nothing: to ask how much the program may lock */
	{"mmap", MAKER, SYS_mmap, true, {0, BYTES, PROT_NONE, MAP_ANONYMOUS, ANY_FD}},
	/* between its calls */
	{"rt_sigreturn", MAKER, SYS_rt_sigreturn, false, {0}},
	{"exit", MAKER, SYS_exit, false, {0}},
	{"munmap", INJECTOR, SYS_munmap, false, {POINTER, BYTES}},
	/* how a thread resumes if the injector dies */
	{"rt_sigreturn", BOOT, SYS_rt_sigreturn, false, {0}},

	/* to say that it has finished, and to learn that the injector has died */
	{"futex", BOOT, SYS_futex, false, {POINTER, FUTEX_WAKE, 1}},
	{"futex", BOOT, SYS_futex, false, {POINTER, FUTEX_WAIT, FUTEX_WAITERS, 0}},
	/* what is mapped without access or as code, and is data */
	{"mprotect", BOOT, SYS_mprotect, false, {POINTER, BYTES, PROT_WRITE}},
	/* a file for the dynamic linker, if it is to load the agent */
	{"memfd_create", BOOT, SYS_memfd_create, false, {POINTER, MFD_CLOEXEC | MFD_NOEXEC_SEAL}},
	{"memfd_create", BOOT, SYS_memfd_create, false, {POINTER, MFD_CLOEXEC}},
	{"write", BOOT, SYS_write, false, {FD, POINTER, BYTES}},
	{"close", BOOT, SYS_close, false, {FD}},

	/* dlopen of the agent, in the order of elf/dl-load.c; the agent needs no library */
	{"openat", LOADER, SYS_openat, false, {CWD, POINTER, O_RDONLY | O_CLOEXEC}},
	{"read", LOADER, SYS_read, false, {FD, POINTER, 832}},
	{"pread64", LOADER, SYS_pread64, false, {FD, POINTER, 784, 64}},
	{"newfstatat", LOADER, SYS_newfstatat, false, {FD, POINTER, POINTER, AT_EMPTY_PATH}},
	{"mmap", LOADER, SYS_mmap, false, {0, BYTES, PROT_READ, MAP_PRIVATE | MAP_DENYWRITE, FD}},
	{"mmap",
	 LOADER,
	 SYS_mmap,
	 false,
	 {POINTER, BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE, FD}},
	{"mmap",
	 LOADER,
	 SYS_mmap,
	 false,
	 {POINTER, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE, FD}},
	{"mprotect", LOADER, SYS_mprotect, false, {POINTER, 4096, PROT_NONE}},
	{"mprotect", LOADER, SYS_mprotect, false, {POINTER, 4096, PROT_READ}},
	/* The stub makes its pages of data unreadable as above, and those of code unless
	 * limpet_seccomp_verdict.denies_exec. */
	/* its locks and its small blocks */
	{"futex", LOADER, SYS_futex, false, {POINTER, FUTEX_WAIT_PRIVATE, 2}},
	{"futex", LOADER, SYS_futex, false, {POINTER, FUTEX_WAKE_PRIVATE, 1}},
	{"brk", LOADER, SYS_brk, true, {POINTER}},
	{"madvise", LOADER, SYS_madvise, true, {POINTER, BYTES, MADV_DONTNEED}},

	/* start and end */
	{"mmap",
	 AGENT,
	 SYS_mmap,
	 false,
	 {POINTER, BYTES, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ANY_FD}},
	{"madvise", AGENT, SYS_madvise, false, {POINTER, 4096, MADV_WIPEONFORK}},
	{"mmap",
	 AGENT,
	 SYS_mmap,
	 false,
	 {POINTER, BYTES, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
	  ANY_FD}},
	/* without them, a child that is forked in a hook may disturb the capture */
	{"madvise", AGENT, SYS_madvise, true, {POINTER, BYTES, MADV_DONTFORK}},
	{"mmap",
	 AGENT,
	 SYS_mmap,
	 true,
	 {POINTER, 4096, PROT_WRITE,
	  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED | MAP_GROWSDOWN, ANY_FD}},
	{"munmap", AGENT, SYS_munmap, false, {POINTER, BYTES}},
	/* if the program locks its memory */
	{"munlock", AGENT, SYS_munlock, true, {POINTER, BYTES}},
	/* slots in pages that the loader has made read-only */
	{"futex",
	 AGENT,
	 SYS_futex,
	 false,
	 {POINTER, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, POINTER, 1u << 28}},
	{"mprotect", AGENT, SYS_mprotect, false, {POINTER, 4096, PROT_READ | PROT_WRITE}},
	/* libraries' dynamic symbols */
	{"mprotect", AGENT, SYS_mprotect, false, {POINTER, BYTES, PROT_READ | PROT_WRITE}},
	{"mprotect", AGENT, SYS_mprotect, false, {POINTER, BYTES, PROT_READ}},

	/* Hooks make no system calls but one: if it is unknown where libc stores a thread's tid. */
	{"gettid", AGENT, SYS_gettid, false, {0}},
};
const size_t limpet_seccomp_call_count = LIMPET_COUNT_OF(limpet_seccomp_calls);
