/* Operations of chaos on threads, signals and coroutines. */
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test/targets/chaos.h"
#include "test/targets/target.h"

static const int signals[] = {SIGUSR1, SIGUSR2, SIGUSR1 + 30};

static int signal_of(unsigned long number)
{
	return number % 3 == 2 ? SIGRTMIN : signals[number % 3];
}

void chaos_sleep_us(unsigned long us)
{
	struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

/* ------------------------------------------------------------------ signals */

static void handle(int number)
{
	struct chaos_machine *machine = chaos_self;
	const unsigned manner = machine->manner;
	int error = errno;

	(void)number;
	machine->handled++;
	if (manner == CHAOS_ALLOCATES || manner == CHAOS_ALLOCATES_AND_LEAVES)
		chaos_churn(2, 200);
	if (manner == CHAOS_LEAVES || manner == CHAOS_ALLOCATES_AND_LEAVES)
		siglongjmp(machine->back, 1);
	errno = error;
}

static void all_signals(sigset_t *set)
{
	sigemptyset(set);
	for (unsigned i = 0; i < 3; i++)
		sigaddset(set, signal_of(i));
}

/* And SIGCHLD, or a child that ends would cut a write short. */
static void blocked_signals(sigset_t *set)
{
	all_signals(set);
	sigaddset(set, SIGCHLD);
}

void chaos_signals_block(void)
{
	sigset_t set;

	blocked_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void chaos_signals_begin(void)
{
	struct sigaction action = {.sa_handler = handle};
	sigset_t set;

	/* Whoever started it may ignore some, as a shell does for what it starts in the background.
	 */
	for (int number = 1; number <= SIGRTMAX; number++)
		signal(number, SIG_DFL);
	blocked_signals(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	for (unsigned i = 0; i < 3; i++) {
		action.sa_flags = i == 1 ? 0 : SA_ONSTACK;
		all_signals(&action.sa_mask);
		sigaction(signal_of(i), &action, NULL);
	}
}

void chaos_signals_check(void)
{
	struct sigaction action;
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	for (int number = 1; number <= SIGRTMAX; number++) {
		bool ours = number == SIGUSR1 || number == SIGUSR2 || number == SIGRTMIN;

		if (sigismember(&set, number) >= 0 &&
		    sigismember(&set, number) != (ours || number == SIGCHLD))
			target_broken("the mask of signal %d has changed", number);
		if (sigaction(number, NULL, &action))
			continue;
		if (action.sa_handler != (ours ? handle : SIG_DFL))
			target_broken("the disposition of signal %d has changed", number);
	}
}

/* It waits for itself here alone, where the allocator is not on the stack. */
void chaos_op_raise(struct chaos_machine *machine, const unsigned long *numbers)
{
	const int number = signal_of(numbers[0]);
	const unsigned before = machine->handled;
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	sigdelset(&set, number);
	machine->manner = (unsigned)numbers[1];
	pthread_kill(pthread_self(), number);
	if (!sigsetjmp(machine->back, 1) && (sigsuspend(&set) != -1 || errno != EINTR))
		chaos_broken("sigsuspend: %s", strerror(errno));
	if (machine->handled == before)
		chaos_broken("no handler ran");
}

void chaos_op_kick(struct chaos_machine *machine, const unsigned long *numbers)
{
	(void)machine;
	pthread_kill(chaos_machines[numbers[0] % chaos_machine_count].thread,
		     signal_of(numbers[1]));
}

void chaos_op_window(struct chaos_machine *machine, const unsigned long *numbers)
{
	const struct timespec time = {0, (long)numbers[0] * 1000};
	const unsigned before = machine->handled;
	const uint64_t begun = target_now_ns();
	sigset_t set;
	volatile int answer = -1;

	sigemptyset(&set);
	machine->manner = (unsigned)numbers[1];
	errno = EINTR;
	if (!sigsetjmp(machine->back, 1))
		answer = pselect(0, NULL, NULL, NULL, &time, &set);
	if (machine->handled != before || (answer && errno == EINTR && getenv("CHAOS_INTERRUPTED")))
		return;
	if (answer)
		chaos_broken("pselect: %d, errno %d, and no handler ran", answer, errno);
	if (target_now_ns() - begun < numbers[0] * 1000)
		chaos_broken("pselect is back too early");
}

static void set_stack(void *address)
{
	stack_t stack = {.ss_sp = address, .ss_size = CHAOS_SIGNAL_STACK};

	if (!address)
		stack.ss_flags = SS_DISABLE;
	if (sigaltstack(&stack, NULL))
		chaos_broken("sigaltstack: %s", strerror(errno));
}

void chaos_op_altstack(struct chaos_machine *machine, const unsigned long *numbers)
{
	static unsigned char stacks[CHAOS_MACHINES][CHAOS_SIGNAL_STACK];

	set_stack(numbers[0] ? stacks[machine->index] : NULL);
}

void chaos_op_altstack_frame(struct chaos_machine *machine, const unsigned long *numbers)
{
	(void)numbers;
	set_stack(machine->frame_stack);
}

/* ------------------------------------------------------------------ threads */

struct task {
	unsigned count;
	size_t bytes;
};

static void *churn(void *argument)
{
	const struct task *task = argument;

	chaos_churn(task->count, task->bytes);
	return argument;
}

void chaos_op_thread(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct task task = {(unsigned)numbers[0], numbers[1]};
	pthread_t thread;
	void *answer;

	(void)machine;
	if (pthread_create(&thread, NULL, churn, &task) || pthread_join(thread, &answer) ||
	    answer != &task)
		chaos_broken("no thread, or a wrong result");
}

static void *churn_detached(void *argument)
{
	struct task *task = argument;

	chaos_churn(task->count, task->bytes);
	chaos_free(task);
	atomic_fetch_sub(&chaos_detached, 1);
	return NULL;
}

void chaos_op_detach(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct task *task;
	pthread_t thread;

	(void)machine;
	if (chaos_detached > 20)
		return;
	task = chaos_malloc(sizeof(*task));
	*task = (struct task){(unsigned)numbers[0], numbers[1]};
	atomic_fetch_add(&chaos_detached, 1);
	if (pthread_create(&thread, NULL, churn_detached, task) || pthread_detach(thread))
		chaos_broken("no thread");
}

static void *sleep_for_good(void *argument)
{
	void *block = chaos_malloc((size_t)argument + 1);

	pthread_cleanup_push(chaos_free, block);
	for (;;)
		pause();
	pthread_cleanup_pop(1);
	return NULL;
}

void chaos_op_cancel(struct chaos_machine *machine, const unsigned long *numbers)
{
	pthread_t thread;
	void *answer = NULL;

	(void)machine;
	if (pthread_create(&thread, NULL, sleep_for_good, (void *)numbers[0]))
		chaos_broken("no thread");
	if (pthread_cancel(thread) || pthread_join(thread, &answer) || answer != PTHREAD_CANCELED)
		chaos_broken("not cancelled: %p", answer);
}

/* It shares the thread pointer of who made it: nothing but system calls. */
static int sleep_raw(void *argument)
{
	struct timespec time = {0, (long)(size_t)argument * 1000};
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "0"(SYS_nanosleep), "D"(&time), "S"(NULL)
			 : "rcx", "r11", "memory");
	return answer ? 1 : 7;
}

enum { RAW_STACK = 64 << 10 };

void chaos_op_raw_thread(struct chaos_machine *machine, const unsigned long *numbers)
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			  CLONE_SYSVSEM | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID;
	unsigned char *stack = chaos_map(RAW_STACK, 0);
	volatile int tid = 1;
	int now;

	(void)machine;
	if (clone(sleep_raw, stack + RAW_STACK, flags, (void *)numbers[0], &tid, NULL, &tid) < 0)
		chaos_broken("clone: %s", strerror(errno));
	while ((now = tid))
		syscall(SYS_futex, &tid, FUTEX_WAIT, now, NULL, NULL, 0);
	chaos_unmap(stack, RAW_STACK);
}

void chaos_op_raw_process(struct chaos_machine *machine, const unsigned long *numbers)
{
	unsigned char *stack = chaos_map(RAW_STACK, 0);
	int status = 0;
	pid_t pid = clone(sleep_raw, stack + RAW_STACK, CLONE_VM | SIGCHLD, (void *)numbers[0]);

	(void)machine;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
		chaos_broken("status %#x of what shares our memory", (unsigned)status);
	chaos_unmap(stack, RAW_STACK);
}

void chaos_op_spin(struct chaos_machine *machine, const unsigned long *numbers)
{
	(void)machine;
	for (volatile unsigned long i = 0; i < numbers[0]; i++)
		;
}

/* ------------------------------------------------------------------ coroutines */

static void coroutine(void)
{
	for (;;) {
		struct chaos_machine *machine = chaos_self;

		chaos_churn(2, machine->coroutine_task);
		swapcontext(&machine->coroutine, &machine->resumer);
	}
}

void chaos_op_coroutine(struct chaos_machine *machine, const unsigned long *numbers)
{
	if (!machine->coroutine_stack) {
		machine->coroutine_stack = chaos_map(CHAOS_SIGNAL_STACK, 0);
		getcontext(&machine->coroutine);
		machine->coroutine.uc_stack.ss_sp = machine->coroutine_stack;
		machine->coroutine.uc_stack.ss_size = CHAOS_SIGNAL_STACK;
		makecontext(&machine->coroutine, coroutine, 0);
	}
	machine->coroutine_task = numbers[1];
	for (unsigned long i = 0; i < numbers[0]; i++)
		swapcontext(&machine->resumer, &machine->coroutine);
}

void chaos_threads_end(struct chaos_machine *machine)
{
	if (machine->coroutine_stack)
		chaos_unmap(machine->coroutine_stack, CHAOS_SIGNAL_STACK);
}
