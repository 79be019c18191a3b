/* Operations of chaos on processes, modules, limits and descriptors. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test/call_filter.h"
#include "test/targets/chaos.h"
#include "test/targets/target.h"

enum { PAGE = 4096 };
extern char **environ;

/* Functions of libc, and where they are in its file: asked before any capture. */
static struct {
	const char *file;
	uint64_t offsets[2];
	uint32_t type; /* of the kernel's events; 0: no probes here */
} probes;

static void find_probes(void)
{
	static const char *const names[] = {"malloc", "free"};
	FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	Dl_info info;

	if (type && fscanf(type, "%u", &probes.type) != 1)
		probes.type = 0;
	if (type)
		fclose(type);
	for (unsigned i = 0; i < 2; i++) {
		void *address = dlsym(RTLD_DEFAULT, names[i]);

		if (!address || !dladdr(address, &info))
			probes.type = 0;
		else
			probes.offsets[i] = (uintptr_t)address - (uintptr_t)info.dli_fbase;
		probes.file = info.dli_fname;
	}
}

/* pthread_cancel loads a library of its own the first time. */
void chaos_process_begin(void)
{
	static const unsigned long none[CHAOS_NUMBERS];

	chaos_op_cancel(&chaos_machines[0], none);
	find_probes();
}

void chaos_process_check(void)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		int number = atoi(entry->d_name);

		if (number > STDERR_FILENO && number != dirfd(directory))
			target_broken("descriptor %d is not its own", number);
	}
	if (directory)
		closedir(directory);
}

static void await_child(pid_t pid, int wanted)
{
	int status = 0;

	if (pid < 0)
		chaos_broken("no child: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			chaos_broken("waitpid: %s", strerror(errno));
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
		chaos_broken("a child's status is %#x", (unsigned)status);
}

void chaos_op_fork(struct chaos_machine *machine, const unsigned long *numbers)
{
	pid_t pid = fork();

	if (pid)
		return await_child(pid, 9);
	for (unsigned i = 0; i < CHAOS_BLOCKS; i++) {
		if (machine->blocks[i].address)
			chaos_check(&machine->blocks[i]);
	}
	chaos_churn((unsigned)numbers[0], numbers[1]);
	_exit(9);
}

void chaos_op_vfork(struct chaos_machine *machine, const unsigned long *numbers)
{
	pid_t pid = vfork();

	(void)machine;
	if (!pid)
		_exit((int)numbers[0]);
	await_child(pid, (int)numbers[0]);
}

void chaos_op_spawn(struct chaos_machine *machine, const unsigned long *numbers)
{
	char *arguments[] = {(char[]){"true"}, NULL};
	pid_t pid = -1;

	(void)machine;
	(void)numbers;
	errno = posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ);
	await_child(errno ? -1 : pid, 0);
}

/* ------------------------------------------------------------------ modules */

void chaos_op_dlopen(struct chaos_machine *machine, const unsigned long *numbers)
{
	void **(*allocate)(unsigned, size_t);
	void (*release)(void **, unsigned);
	void *module;

	(void)machine;
	pthread_rwlock_rdlock(&chaos_descriptors);
	module = dlopen(chaos_module_path, RTLD_NOW | RTLD_LOCAL);
	pthread_rwlock_unlock(&chaos_descriptors);
	if (!module)
		chaos_broken("%s", dlerror());
	allocate = (void **(*)(unsigned, size_t))dlsym(module, "plugin_allocate");
	release = (void (*)(void **, unsigned))dlsym(module, "plugin_free");
	release(allocate((unsigned)numbers[0], 100), (unsigned)numbers[0]);
	if (dlclose(module))
		chaos_broken("%s", dlerror());
}

void chaos_op_dlerror(struct chaos_machine *machine, const unsigned long *numbers)
{
	const char *error;

	(void)machine;
	(void)numbers;
	dlerror();
	if (dlsym(RTLD_DEFAULT, "no_such_function_of_chaos"))
		chaos_broken("found");
	error = dlerror();
	if (!error || !strstr(error, "no_such_function_of_chaos"))
		chaos_broken("dlerror says '%s'", error ? error : "nothing");
}

/* ------------------------------------------------------------------ what changes the process for
 * good */

/* Of calls that chaos makes none of. */
void chaos_op_filter(struct chaos_machine *machine, const unsigned long *numbers)
{
	static const unsigned calls[] = {SYS_sendto,           SYS_fstat,        SYS_socketpair,
					 SYS_process_vm_readv, SYS_memfd_create, SYS_sendmsg,
					 SYS_getsockopt,       SYS_ftruncate};
	const unsigned action = numbers[1] ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
	struct call_filter filter = {0};
	int error;

	(void)machine;
	call_filter_load(&filter, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (numbers[0] >> i & 1)
			call_filter_judge(&filter, calls[i], action);
	call_filter_end(&filter, SECCOMP_RET_ALLOW);
	error = call_filter_install(&filter, SECCOMP_FILTER_FLAG_TSYNC);
	if (error)
		chaos_broken("no filter: %s", strerror(-error));
}

void chaos_op_late_filter(struct chaos_machine *machine, const unsigned long *numbers)
{
	chaos_op_filter(machine, numbers);
}

void chaos_op_close_all(struct chaos_machine *machine, const unsigned long *numbers)
{
	(void)machine;
	(void)numbers;
	pthread_rwlock_wrlock(&chaos_descriptors);
	if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0))
		chaos_broken("close_range: %s", strerror(errno));
	pthread_rwlock_unlock(&chaos_descriptors);
}

/* Over whatever is there, above what it uses itself: not one byte may come. */
void chaos_op_dup_over(struct chaos_machine *machine, const unsigned long *numbers)
{
	int ends[2];
	char byte;

	(void)machine;
	pthread_rwlock_wrlock(&chaos_descriptors);
	if (pipe2(ends, O_NONBLOCK))
		chaos_broken("no pipe: %s", strerror(errno));
	for (int number = 100 + (int)numbers[0]; number < 1024; number++)
		dup2(ends[1], number);
	chaos_sleep_us(2000);
	if (read(ends[0], &byte, 1) != -1 || errno != EAGAIN)
		chaos_broken("a byte that is not its own");
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
	pthread_rwlock_unlock(&chaos_descriptors);
}

void chaos_op_few_descriptors(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct rlimit limit;

	(void)machine;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = numbers[0];
	if (setrlimit(RLIMIT_NOFILE, &limit))
		chaos_broken("setrlimit: %s", strerror(errno));
}

void chaos_op_lock_memory(struct chaos_machine *machine, const unsigned long *numbers)
{
	(void)machine;
	(void)numbers;
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		chaos_broken("mlockall: %s", strerror(errno));
}

/* The lowest number that is free is the next one's: POSIX says so, and nobody else opens any. */
void chaos_op_lowest(struct chaos_machine *machine, const unsigned long *numbers)
{
	(void)machine;
	pthread_rwlock_wrlock(&chaos_descriptors);
	for (unsigned long i = 0; i < numbers[0]; i++) {
		const int first = open("/dev/null", O_RDONLY | O_CLOEXEC);
		int second;

		if (first < 0)
			break;
		close(first);
		second = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (second != first)
			chaos_broken("descriptor %d instead of %d", second, first);
		close(second);
	}
	pthread_rwlock_unlock(&chaos_descriptors);
}

/* ------------------------------------------------------------------ what others do to it */

/* Reads what it did not make itself and is listed as readable, a while after it was listed. */
void chaos_op_scan(struct chaos_machine *machine, const unsigned long *numbers)
{
	static const char name[] = "/memfd:";
	char text[512];
	FILE *maps;

	(void)machine;
	(void)numbers;
	pthread_rwlock_rdlock(&chaos_descriptors);
	maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(text, sizeof(text), maps)) {
		uint64_t start, end;
		char access;

		if (!strstr(text, name) ||
		    sscanf(text, "%" SCNx64 "-%" SCNx64 " %c", &start, &end, &access) != 3 ||
		    access != 'r')
			continue;
		chaos_sleep_us(2000);
		for (; start < end; start += PAGE)
			*(const volatile unsigned char *)(uintptr_t)start;
	}
	if (maps)
		fclose(maps);
	pthread_rwlock_unlock(&chaos_descriptors);
}

/* Allocates while the kernel has a probe on one of libc's functions, where it begins or returns. */
void chaos_op_probed(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct perf_event_attr attr = {
		.type = probes.type,
		.size = sizeof(attr),
		.config = numbers[1] & 1,
		.config1 = (uint64_t)(uintptr_t)probes.file,
		.config2 = probes.offsets[numbers[1] >> 1],
	};
	int probe = -1;

	(void)machine;
	pthread_rwlock_rdlock(&chaos_descriptors);
	if (probes.type)
		probe = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	chaos_churn((unsigned)numbers[0], 100);
	if (probe >= 0)
		close(probe);
	pthread_rwlock_unlock(&chaos_descriptors);
}
