/* Operations of chaos on processes, modules, limits and descriptors. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test/call_filter.h"
#include "test/targets/chaos.h"
#include "test/targets/target.h"

extern char **environ;

/* pthread_cancel loads a library of its own the first time. */
void chaos_process_begin(void)
{
	static const unsigned long none[CHAOS_NUMBERS];

	chaos_op_cancel(&chaos_machines[0], none);
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
