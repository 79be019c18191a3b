/* What is recognized as left by a limpet that died. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "injector/remote/hijack.h"
#include "injector/session/leftovers.h"
#include "test/unit/proc_fixture.h"
#include "test/unit/target_of.h"

#define LIBRARY "7f0000000000-7f0001000000 r-xp 00000000 08:01 11 /lib/libc.so.6\n"
#define AGENT(range, offset) range " r-xp " offset " 00:01 21 /memfd:limpet-agent (deleted)\n"
#define SHARED(range, perms, offset, inode) \
	range " " perms " " offset " 00:01 " inode " /memfd:limpet-shared (deleted)\n"

static int find(const char *maps)
{
	static const struct limpet_modules none;

	proc_fixture_begin();
	proc_fixture_write("7/maps", LIBRARY "%s", maps);
	/* A descriptor that is nobody's. */
	proc_fixture_write("7/fd/0", "%s", "");
	int answer = limpet_leftovers_find(target_of(7), &none);

	proc_fixture_end();
	return answer;
}

static void test_ranges(void **state)
{
	(void)state;
	assert_int_equal(find(""), 0);
	/* All that is mapped for an attach, and what a stub needs. */
	assert_int_equal(
		find(AGENT("7f0002000000-7f0002040000", "00000000")
			     SHARED("7f0002040000-7f0002062000", "rw-s", "00040000", "22")
				     SHARED("7f0002062000-7f0005000000", "---s", "00062000", "22")),
		1);
	assert_int_equal(find(AGENT("7f0002000000-7f000200f000", "00040000")), 1);
	/* Addresses that were taken, and nothing more. */
	assert_int_equal(find(SHARED("7f0002000000-7f0005000000", "---s", "00000000", "22")), 1);
	/* What a limpet maps itself, beside what is no leftover. */
	assert_int_equal(find(SHARED("7f0002062000-7f0005000000", "rw-s", "00062000", "22")), 0);
	assert_int_equal(find("7f0002000000-7f0002062000 rw-p 00000000 00:00 0\n" SHARED(
				 "7f0002062000-7f0005000000", "rw-s", "00062000", "22")),
			 0);
	/* A program's own file of that name, which it does not share. */
	assert_int_equal(find(SHARED("7f0002000000-7f0005000000", "rw-p", "00000000", "22")), 0);
}

/* A file as a maker of a limpet that died has made it, and what a limpet that lives has mapped. */
static void test_empty_files(void **state)
{
	const uint64_t magic = UINT64_C(0x5355425453504550);
	int file = memfd_create("limpet-shared", 0);
	void *memory = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, file, 4096);
	struct limpet_map map = {.start = (uintptr_t)memory,
				 .end = (uintptr_t)memory + 4096,
				 .offset = 4096,
				 .perms = "-w-s",
				 .path = "/memfd:limpet-shared (deleted)"};

	(void)state;
	assert_true(memory != MAP_FAILED);
	assert_true(limpet_hijack_is_stub(getpid(), &map));
	assert_int_equal(ftruncate(file, 8192), 0);
	assert_false(limpet_hijack_is_stub(getpid(), &map));
	assert_int_equal(pwrite(file, &magic, sizeof(magic), 4096), sizeof(magic));
	assert_true(limpet_hijack_is_stub(getpid(), &map));
	map.perms[3] = 'p';
	assert_false(limpet_hijack_is_stub(getpid(), &map));
	munmap(memory, 4096);
	close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges),
					   cmocka_unit_test(test_empty_files)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
