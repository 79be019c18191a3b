/* chaos: runs a program of chaos.h.
 *
 *	chaos FILE MODULE                      runs it; MODULE is the one that it loads
 *	chaos --draw SEED [--with NAMES] [--only NAMES]
 *	                                       writes one that is drawn by a number; NAMES, with
 *	                                       commas, of operations that are known to fail, or of
 *	                                       the only ones
 *	chaos --kinds                          "NAME FLAGS REASON" of each operation
 *
 * Commands: "step N" is answered when so many operations more were done; "phase N" when each
 * machine has done its operations of that phase; "hold" stops all machines between operations and
 * answers with the counts, as JSON, until "go"; "count" answers them at once; "quit" ends all
 * machines, checks what is left to check and answers "ok" and the counts. */
#include <poll.h>
#include <stdarg.h>

#include "test/targets/chaos.h"
#include "test/targets/target.h"

struct chaos_counts chaos_counts;
struct chaos_machine chaos_machines[CHAOS_MACHINES];
unsigned chaos_machine_count;
atomic_int chaos_detached;
pthread_rwlock_t chaos_descriptors = PTHREAD_RWLOCK_INITIALIZER;
_Thread_local struct chaos_machine *chaos_self;
const char *chaos_module_path;

static atomic_int phase_told = -1;
static atomic_bool hold_told, quit_told;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static unsigned held;
static _Thread_local const struct chaos_operation *at_hand;

/* What the driver waits for; one at a time. */
static struct {
	enum { NOTHING, STEPS, PHASE } what;
	unsigned long number;
} awaited;

void chaos_broken(const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	target_broken("machine %d, %s %lu %lu %lu: %s", chaos_self ? (int)chaos_self->index : -1,
		      at_hand ? at_hand->kind->name : "no operation",
		      at_hand ? at_hand->numbers[0] : 0, at_hand ? at_hand->numbers[1] : 0,
		      at_hand ? at_hand->numbers[2] : 0, text);
}

uint64_t chaos_random(struct chaos_machine *machine, uint64_t most)
{
	return target_random(&machine->random) % (most + 1);
}

static void say_counts(const char *word)
{
	target_say("%s{\"allocations\":%lu,\"frees\":%lu,\"allocated_bytes\":%lu,\"mmaps\":%lu,"
		   "\"munmaps\":%lu,\"steps\":%lu}",
		   word, chaos_counts.allocations, chaos_counts.frees, chaos_counts.bytes,
		   chaos_counts.maps, chaos_counts.unmaps, chaos_counts.steps);
}

/* ------------------------------------------------------------------ machines */

static void do_operation(struct chaos_machine *machine, const struct chaos_operation *operation)
{
	at_hand = operation;
	operation->kind->run(machine, operation->numbers);
	at_hand = NULL;
	atomic_fetch_add(&chaos_counts.steps, 1);
}

static void do_phases(struct chaos_machine *machine)
{
	int told = phase_told;

	while (machine->phase < told) {
		for (unsigned i = 0; i < machine->count; i++) {
			if (machine->operations[i].phase == machine->phase + 1)
				do_operation(machine, &machine->operations[i]);
		}
		machine->phase++;
	}
}

/* The next operation that is done again and again; after the last of them a rest, for a machine
 * without one would take a processor for itself. */
static void do_next(struct chaos_machine *machine)
{
	do_phases(machine);
	for (; machine->at < machine->count; machine->at++) {
		if (machine->operations[machine->at].phase < 0) {
			do_operation(machine, &machine->operations[machine->at++]);
			return;
		}
	}
	machine->at = 0;
	atomic_fetch_add(&chaos_counts.steps, 1);
	chaos_sleep_us(200);
}

static void wait_at_gate(void)
{
	pthread_mutex_lock(&gate);
	held++;
	pthread_cond_broadcast(&gate_moved);
	while (hold_told)
		pthread_cond_wait(&gate_moved, &gate);
	held--;
	pthread_mutex_unlock(&gate);
}

static void *run_machine(void *argument)
{
	chaos_self = argument;
	while (!quit_told) {
		if (hold_told)
			wait_at_gate();
		else
			do_next(chaos_self);
	}
	return NULL;
}

static void release_machines(void)
{
	pthread_mutex_lock(&gate);
	hold_told = false;
	pthread_cond_broadcast(&gate_moved);
	pthread_mutex_unlock(&gate);
}

/* None runs before all are there: one may signal another. */
static void begin_machines(void)
{
	pthread_attr_t attributes;

	hold_told = true;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, CHAOS_STACK);
	for (unsigned i = 1; i < chaos_machine_count; i++) {
		if (pthread_create(&chaos_machines[i].thread, &attributes, run_machine,
				   &chaos_machines[i]))
			target_broken("no thread for machine %u", i);
	}
	pthread_attr_destroy(&attributes);
	release_machines();
}

/* ------------------------------------------------------------------ the main thread */

static void hold(void)
{
	char line[256];

	hold_told = true;
	pthread_mutex_lock(&gate);
	while (held < chaos_machine_count - 1)
		pthread_cond_wait(&gate_moved, &gate);
	pthread_mutex_unlock(&gate);
	while (chaos_detached)
		chaos_sleep_us(100);
	say_counts("held ");
	if (!target_listen(line, sizeof(line)) || strcmp(line, "go"))
		target_broken("'%s' instead of 'go'", line);
	release_machines();
	target_say("going");
}

static bool is_through(void)
{
	switch (awaited.what) {
	case STEPS:
		return chaos_counts.steps >= awaited.number;
	case PHASE:
		for (unsigned i = 0; i < chaos_machine_count; i++) {
			if (chaos_machines[i].phase < (int)awaited.number)
				return false;
		}
		return true;
	default:
		return false;
	}
}

static void hear(const char *line)
{
	unsigned long number;

	if (target_word(line, "step", &number)) {
		awaited.what = STEPS;
		awaited.number = chaos_counts.steps + number;
	} else if (target_word(line, "phase", &number)) {
		awaited.what = PHASE;
		awaited.number = number;
		phase_told = (int)number;
	} else if (!strcmp(line, "hold")) {
		hold();
	} else if (!strcmp(line, "count")) {
		say_counts("counts ");
	} else if (!strcmp(line, "quit")) {
		quit_told = true;
	} else {
		target_broken("unknown command '%s'", line);
	}
}

static void serve(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[256];

	if (is_through()) {
		awaited.what = NOTHING;
		target_say("through");
	}
	if (poll(&input, 1, 0) <= 0)
		return;
	if (!target_listen(line, sizeof(line)))
		_exit(TARGET_EXIT_BROKEN);
	hear(line);
}

static void check_all(void)
{
	for (unsigned i = 1; i < chaos_machine_count; i++)
		pthread_join(chaos_machines[i].thread, NULL);
	while (chaos_detached)
		chaos_sleep_us(100);
	for (unsigned i = 0; i < chaos_machine_count; i++) {
		chaos_memory_end(&chaos_machines[i]);
		chaos_threads_end(&chaos_machines[i]);
	}
	chaos_signals_check();
	chaos_process_check();
	if (chaos_counts.allocations != chaos_counts.frees)
		target_broken("%lu allocations, but %lu frees", chaos_counts.allocations,
			      chaos_counts.frees);
	if (chaos_counts.maps != chaos_counts.unmaps)
		target_broken("%lu mappings made, but %lu unmapped", chaos_counts.maps,
			      chaos_counts.unmaps);
}

static void run_program(void)
{
	for (unsigned i = 0; i < CHAOS_MACHINES; i++) {
		chaos_machines[i].index = i;
		chaos_machines[i].random = 0x9e3779b97f4a7c15u * (i + 1);
		chaos_machines[i].phase = -1;
	}
	chaos_self = &chaos_machines[0];
	chaos_self->thread = pthread_self();
	chaos_process_begin();
	chaos_signals_begin();
	begin_machines();
	target_say("ready %d", getpid());
	while (!quit_told) {
		serve();
		do_next(chaos_self);
	}
	check_all();
	say_counts("ok ");
}

/* For alternate signal stacks: above whatever main calls. Only where they are used: limpet cannot
 * follow a stack through so large a frame, and a program of one thread would be refused for good.
 */
TARGET_FRAME static void run_below_stacks(void)
{
	unsigned char frames[CHAOS_MACHINES][CHAOS_SIGNAL_STACK];

	for (unsigned i = 0; i < CHAOS_MACHINES; i++)
		chaos_machines[i].frame_stack = frames[i];
	run_program();
	__asm__ volatile("" : : "r"(frames) : "memory");
}

static bool needs_frames(void)
{
	for (unsigned i = 0; i < chaos_machine_count; i++) {
		for (unsigned n = 0; n < chaos_machines[i].count; n++) {
			if (chaos_machines[i].operations[n].kind->run == chaos_op_altstack_frame)
				return true;
		}
	}
	return false;
}

static const char *option(int argc, char **argv, const char *name)
{
	for (int i = 1; i + 1 < argc; i++) {
		if (!strcmp(argv[i], name))
			return argv[i + 1];
	}
	return "";
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--kinds")) {
		chaos_program_list();
	} else if (argc >= 3 && !strcmp(argv[1], "--draw")) {
		chaos_program_draw(strtoull(argv[2], NULL, 10), option(argc, argv, "--with"),
				   option(argc, argv, "--only"));
	} else if (argc == 3) {
		chaos_program_read(argv[1]);
		chaos_module_path = argv[2];
		if (needs_frames())
			run_below_stacks();
		else
			run_program();
	} else {
		target_broken("usage: chaos FILE MODULE | --draw SEED | --kinds");
	}
	return 0;
}
