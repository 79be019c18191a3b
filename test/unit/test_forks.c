/* Children are found among the processes of the machine, which are invented here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/remote/own_objects.h"
#include "injector/session/forks.h"
#include "test/unit/target_of.h"

#define MS UINT64_C(1000000)

enum { PARENT = 100, CHILD = 101, AGENT_INODE = 4711 };

static struct {
	uint64_t now_ns;
	int assigned;  /* the number that was assigned last */
	bool is_born;  /* the child can be seen */
	bool executes; /* and has another program by then */
	pid_t parent;  /* of the child */
	unsigned lists;
} machine;

static char agent_path[] = "/memfd:" LIMPET_MEMFD_AGENT " (deleted)";

uint64_t __wrap_limpet_monotonic_ns(void);
int __wrap_limpet_proc_file_read(pid_t pid, const char *name, char **ret_text, size_t *ret_bytes);
int __wrap_limpet_proc_pids(pid_t **ret_pids);
int __wrap_limpet_proc_start_time(pid_t pid, uint64_t *ret_ticks);
int __wrap_limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret);
int __wrap_limpet_memory_read_own(pid_t pid, uint64_t address, void *ret, size_t bytes);
int __wrap_limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret);
void __wrap_limpet_proc_maps_done(struct limpet_maps *maps);
bool __wrap_limpet_own_objects_has_inode(uint64_t inode);

uint64_t __wrap_limpet_monotonic_ns(void)
{
	return machine.now_ns;
}

int __wrap_limpet_proc_file_read(pid_t pid, const char *name, char **ret_text, size_t *ret_bytes)
{
	assert_int_equal(pid, 0);
	assert_string_equal(name, "loadavg");
	*ret_bytes = (size_t)asprintf(ret_text, "0.00 0.00 0.00 1/2 %d\n", machine.assigned);
	return 0;
}

int __wrap_limpet_proc_pids(pid_t **ret_pids)
{
	machine.lists++;
	*ret_pids = malloc(2 * sizeof(pid_t));
	assert_non_null(*ret_pids);
	(*ret_pids)[0] = PARENT;
	(*ret_pids)[1] = CHILD;
	return machine.is_born ? 2 : 1;
}

int __wrap_limpet_proc_start_time(pid_t pid, uint64_t *ret_ticks)
{
	*ret_ticks = pid == CHILD ? 2 : 1;
	return 0;
}

int __wrap_limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ppid = pid == CHILD ? machine.parent : 1;
	return 0;
}

int __wrap_limpet_memory_read_own(pid_t pid, uint64_t address, void *ret, size_t bytes)
{
	(void)address;
	memset(ret, pid == CHILD && !machine.executes ? 0 : 1, bytes);
	return 0;
}

int __wrap_limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret)
{
	(void)pid;
	memset(ret, 0, sizeof(*ret));
	ret->list = calloc(1, sizeof(*ret->list));
	assert_non_null(ret->list);
	ret->count = 1;
	ret->list[0] = (struct limpet_map){.inode = AGENT_INODE, .path = agent_path};
	return 0;
}

void __wrap_limpet_proc_maps_done(struct limpet_maps *maps)
{
	free(maps->list);
}

bool __wrap_limpet_own_objects_has_inode(uint64_t inode)
{
	return inode == AGENT_INODE;
}

static struct limpet_forks *begin(void)
{
	struct limpet_forks *forks = NULL;

	memset(&machine, 0, sizeof(machine));
	machine.now_ns = 1000 * MS;
	machine.assigned = PARENT;
	assert_int_equal(limpet_forks_new(&forks), 0);
	limpet_forks_begin(forks, target_of(PARENT), 0x1000);
	limpet_forks_scan(forks, machine.now_ns, false);
	return forks;
}

/* Looks every millisecond, as often as a busy capture may. */
static void look_for(struct limpet_forks *forks, unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		machine.now_ns += MS;
		limpet_forks_scan(forks, machine.now_ns, false);
	}
}

static uint64_t lost(const struct limpet_forks *forks)
{
	struct limpet_forks_stats stats;

	limpet_forks_stats_read(forks, &stats);
	return stats.lost;
}

static uint64_t found(const struct limpet_forks *forks)
{
	struct limpet_forks_stats stats;

	limpet_forks_stats_read(forks, &stats);
	return stats.found;
}

static void test_a_child_is_found_and_taken_once(void **state)
{
	struct limpet_forks *forks = begin();
	struct limpet_fork fork;

	(void)state;
	machine.assigned = CHILD;
	machine.is_born = true;
	look_for(forks, 6);
	assert_int_equal(found(forks), 1);
	assert_false(limpet_forks_is_due(forks, machine.now_ns));
	assert_false(limpet_forks_claim(forks, machine.now_ns, &fork));
	look_for(forks, 30);
	assert_true(limpet_forks_is_due(forks, machine.now_ns));
	assert_true(limpet_forks_claim(forks, machine.now_ns, &fork));
	assert_int_equal(fork.pid, CHILD);
	assert_false(limpet_forks_is_due(forks, machine.now_ns));
	look_for(forks, 3000);
	assert_int_equal(found(forks), 1);
	limpet_forks_free(forks);
}

/* The parent lost the processor in the middle of its fork. */
static void test_a_number_is_assigned_before_its_process_is_seen(void **state)
{
	static const unsigned later_ms[] = {1, 7, 40, 300};

	(void)state;
	for (size_t i = 0; i < sizeof(later_ms) / sizeof(later_ms[0]); i++) {
		struct limpet_forks *forks = begin();

		machine.assigned = CHILD;
		look_for(forks, later_ms[i]);
		machine.is_born = true;
		look_for(forks, 1000);
		assert_int_equal(found(forks), 1);
		limpet_forks_free(forks);
	}
}

/* However long ago the number was assigned. */
static void test_the_last_look_is_made_in_any_case(void **state)
{
	struct limpet_forks *forks = begin();

	(void)state;
	machine.assigned = CHILD;
	look_for(forks, 5000);
	machine.is_born = true;
	look_for(forks, 5000);
	assert_int_equal(found(forks), 0);
	limpet_forks_scan(forks, machine.now_ns, true);
	assert_int_equal(found(forks), 1);
	limpet_forks_free(forks);
}

static void test_a_child_that_executes_at_once_is_counted(void **state)
{
	(void)state;
	for (int ours = 0; ours < 2; ours++) {
		struct limpet_forks *forks = begin();
		struct limpet_fork fork;

		machine.assigned = CHILD;
		machine.is_born = machine.executes = true;
		machine.parent = ours ? PARENT : 1;
		look_for(forks, 100);
		assert_int_equal(found(forks), ours);
		assert_int_equal(lost(forks), ours);
		assert_false(limpet_forks_claim(forks, machine.now_ns, &fork));
		limpet_forks_free(forks);
	}
}

/* It may have executed that program before the attach. */
static void test_a_child_of_the_first_look_is_not_counted(void **state)
{
	struct limpet_forks *forks = begin();

	(void)state;
	limpet_forks_free(forks);
	machine.assigned = CHILD;
	machine.is_born = machine.executes = true;
	machine.parent = PARENT;
	assert_int_equal(limpet_forks_new(&forks), 0);
	limpet_forks_begin(forks, target_of(PARENT), 0x1000);
	look_for(forks, 100);
	assert_int_equal(found(forks), 0);
	limpet_forks_free(forks);
}

static void test_no_process_is_looked_at_while_none_is_created(void **state)
{
	struct limpet_forks *forks = begin();
	unsigned lists;

	(void)state;
	look_for(forks, 2000);
	lists = machine.lists;
	assert_in_range(lists, 2, 12);
	look_for(forks, 60000);
	assert_int_equal(machine.lists, lists);
	limpet_forks_free(forks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_child_is_found_and_taken_once),
		cmocka_unit_test(test_a_number_is_assigned_before_its_process_is_seen),
		cmocka_unit_test(test_the_last_look_is_made_in_any_case),
		cmocka_unit_test(test_a_child_that_executes_at_once_is_counted),
		cmocka_unit_test(test_a_child_of_the_first_look_is_not_counted),
		cmocka_unit_test(test_no_process_is_looked_at_while_none_is_created),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
