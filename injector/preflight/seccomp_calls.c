/* The complete list of system calls that a capture makes in threads of its target, with the
 * arguments that filters examine. Whoever adds a system call to the agent, to the boot stub or to a
 * remote step adds it here. Arguments have the values of the real calls, or a plausible one if any
 * would do. */
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
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
#define BOOT "the boot stub"
#define LOADER "the dynamic linker"
#define AGENT "the agent"

const struct limpet_seccomp_call limpet_seccomp_calls[] = {
	/* remote calls, before the agent is loaded */
	{"memfd_create",
	 INJECTOR,
	 SYS_memfd_create,
	 false,
	 {POINTER, MFD_CLOEXEC | MFD_NOEXEC_SEAL}},
	{"memfd_create", INJECTOR, SYS_memfd_create, false, {POINTER, MFD_CLOEXEC}},
	{"socketpair",
	 BOOT,
	 SYS_socketpair,
	 false,
	 {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, POINTER}},
	{"mmap", INJECTOR, SYS_mmap, false, {0, BYTES, PROT_EXEC, MAP_PRIVATE, FD}},
	{"mmap",
	 INJECTOR,
	 SYS_mmap,
	 false,
	 {POINTER, BYTES, PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, FD}},
	{"mmap",
	 INJECTOR,
	 SYS_mmap,
	 false,
	 {POINTER, BYTES, PROT_WRITE, MAP_PRIVATE | MAP_FIXED, FD}},
	{"munmap", INJECTOR, SYS_munmap, false, {POINTER, BYTES}},
	{"close", INJECTOR, SYS_close, false, {FD}},
	/* how a thread resumes if the injector dies */
	{"rt_sigreturn", BOOT, SYS_rt_sigreturn, false, {0}},

	{"fcntl", BOOT, SYS_fcntl, true, {FD, F_DUPFD_CLOEXEC, 1000}},
	{"sendto", BOOT, SYS_sendto, false, {FD, POINTER, 64, MSG_NOSIGNAL}},
	{"recvfrom", BOOT, SYS_recvfrom, false, {FD, POINTER, 1}},
	/* the agent, if it is mapped without dlopen */
	{"mmap", BOOT, SYS_mmap, false, {0, BYTES, PROT_NONE, MAP_PRIVATE, FD}},
	{"mmap", BOOT, SYS_mmap, false, {POINTER, BYTES, PROT_WRITE, MAP_PRIVATE | MAP_FIXED, FD}},
	{"mmap", BOOT, SYS_mmap, false, {POINTER, BYTES, PROT_EXEC, MAP_PRIVATE | MAP_FIXED, FD}},
	/* the thunks */
	{"mmap", BOOT, SYS_mmap, false, {0, 8192, PROT_EXEC, MAP_PRIVATE, FD}},

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
	/* so that the agent is not listed as readable any more */
	{"mprotect", BOOT, SYS_mprotect, true, {POINTER, BYTES, PROT_WRITE}},
	/* likewise its code, unless limpet_seccomp_verdict.denies_exec */
	/* its locks and its small blocks */
	{"futex", LOADER, SYS_futex, false, {POINTER, FUTEX_WAIT_PRIVATE, 2}},
	{"futex", LOADER, SYS_futex, false, {POINTER, FUTEX_WAKE_PRIVATE, 1}},
	{"brk", LOADER, SYS_brk, true, {POINTER}},
	{"madvise", LOADER, SYS_madvise, true, {POINTER, BYTES, MADV_DONTNEED}},

	/* start and end */
	{"recvmsg", AGENT, SYS_recvmsg, false, {FD, POINTER, MSG_CMSG_CLOEXEC | MSG_DONTWAIT}},
	{"mmap", AGENT, SYS_mmap, false, {0, BYTES, PROT_WRITE, MAP_SHARED, FD}},
	{"mmap", AGENT, SYS_mmap, false, {0, BYTES, PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, FD}},
	{"mmap",
	 AGENT,
	 SYS_mmap,
	 false,
	 {0, BYTES, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ANY_FD}},
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

	{"fstat", AGENT, SYS_fstat, false, {FD, POINTER}},
	{"close", AGENT, SYS_close, false, {FD}},
	/* Hooks make no system calls but one: if it is unknown where libc stores a thread's tid. */
	{"gettid", AGENT, SYS_gettid, false, {0}},
};
const size_t limpet_seccomp_call_count = LIMPET_COUNT_OF(limpet_seccomp_calls);
