#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/tid_offset.h"
#include "injector/ptrace/tracee.h"
#include "test/unit/clock_fixture.h"
#include "test/unit/proc_fixture.h"
#include "test/unit/target_of.h"

#define PID 4711

static int begin(void **state)
{
	(void)state;
	proc_fixture_begin();
	return 0;
}

static int end(void **state)
{
	(void)state;
	proc_fixture_end();
	return 0;
}

/* ------------------------------------------------------------------ control groups */

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_ID "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void test_container_ids(void **state)
{
	static const struct {
		const char *cgroup, *mountinfo, *id; /* NULL: none */
	} cases[] = {
		{"0::/system.slice/docker-" ID ".scope\n", "", ID},
		{"4:memory:/docker/" ID "\n0::/\n", "", ID},
		{"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope\n", "", ID},
		{"0::/machine.slice/libpod-" ID ".scope/container\n", "", ID},
		/* the inner one */
		{"0::/docker/" OTHER_ID "/docker/" ID "\n", "", ID},
		{"0::/user.slice/user-1000.slice\n", "", NULL},
		/* too short, too long */
		{"0::/docker/0123456789abcdef\n1:x:/" ID "0\n", "", NULL},
		{"0::/\n",
		 "1 2 0:3 / / rw - overlay overlay rw,upperdir=/var/lib/docker/overlay2/" OTHER_ID
		 "/diff\n2 1 8:1 /var/lib/docker/containers/" ID
		 "/hostname /etc/hostname rw - ext4 /dev/sda rw\n",
		 ID},
		{"0::/\n", "1 2 0:3 /sandboxes/" ID "/x /etc/hostname rw - ext4 /dev/sda rw\n",
		 NULL},
		{"", "", NULL},
	};
	char id[LIMPET_CONTAINER_ID_BYTES];

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		strcpy(id, "untouched");
		proc_fixture_write("4711/cgroup", "%s", cases[i].cgroup);
		proc_fixture_write("4711/mountinfo", "%s", cases[i].mountinfo);
		assert_int_equal(limpet_container_id(target_of(PID), id),
				 cases[i].id ? 0 : -ENOENT);
		assert_string_equal(id, cases[i].id ? cases[i].id : "untouched");
	}
	proc_fixture_remove("4711/cgroup");
	proc_fixture_remove("4711/mountinfo");
	assert_int_equal(limpet_container_id(target_of(PID), id), -ENOENT);
}

static void test_memory_of_a_group(void **state)
{
	struct limpet_cgroup group;
	uint64_t bytes = 1;

	(void)state;
	assert_int_equal(limpet_cgroup_find(target_of(PID), &group), -ENOENT);
	proc_fixture_write("self/mountinfo",
			   "30 23 0:26 / %s/cg rw shared:4 - cgroup2 cgroup2 rw\n",
			   proc_fixture_path(""));
	proc_fixture_write("4711/cgroup", "%s", "0::/pod/box\n");
	assert_int_equal(limpet_cgroup_find(target_of(PID), &group), 0);
	assert_int_equal(limpet_cgroup_usage(&group, &bytes), -ENODATA);
	assert_int_equal(limpet_cgroup_limit(&group, &bytes), -ENODATA);
	assert_int_equal(bytes, 1);
	proc_fixture_write("cg/pod/box/memory.current", "%s", "12345678\n");
	proc_fixture_write("cg/pod/box/memory.max", "%s", "max\n");
	assert_int_equal(limpet_cgroup_usage(&group, &bytes), 0);
	assert_int_equal(bytes, 12345678);
	assert_int_equal(limpet_cgroup_limit(&group, &bytes), -ENODATA);
	/* The least one counts, wherever it is set. */
	proc_fixture_write("cg/pod/box/memory.max", "%s", "99000000\n");
	proc_fixture_write("cg/pod/memory.current", "%s", "12345678\n");
	proc_fixture_write("cg/pod/memory.max", "%s", "88000000\n");
	assert_int_equal(limpet_cgroup_limit(&group, &bytes), 0);
	assert_int_equal(bytes, 88000000);
}

/* A name that another user has chosen is no part of a command, and no way up. */
static void test_names_of_groups(void **state)
{
	static const struct {
		const char *cgroup, *words;
	} cases[] = {
		{"0::/pod/box", "echo 0 > "},
		{"0::/..pod/box", "echo 0 > "},
		{"0::/x$(touch y);id", "write 0 to cgroup.freeze of that group"},
		{"0::/a b", "write 0 to cgroup.freeze of that group"},
		{"0::/../elsewhere", NULL},
		{"0::/pod/..", NULL},
	};
	struct limpet_cgroup group;
	char words[512];

	(void)state;
	proc_fixture_write("self/mountinfo", "%s",
			   "30 23 0:26 / /cg rw shared:4 - cgroup2 cgroup2 rw\n");
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		proc_fixture_write("4711/cgroup", "%s\n", cases[i].cgroup);
		assert_int_equal(limpet_cgroup_find(target_of(PID), &group),
				 cases[i].words ? 0 : -ENOENT);
		if (!cases[i].words)
			continue;
		limpet_cgroup_thaw_words(target_of(PID), &group, words, sizeof(words));
		if (strncmp(words, cases[i].words, strlen(cases[i].words)) != 0)
			fail_msg("%s: %s", cases[i].cgroup, words);
	}
}

static void test_a_descriptor_is_held_and_nobody_asked(void **state)
{
	const char *kept = limpet_proc_root;
	unsigned type = 0;
	int ends[2], file, pinned;

	(void)state;
	limpet_proc_root = "/proc";
	assert_int_equal(pipe(ends), 0);
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	pinned = limpet_proc_pin(getpid(), (unsigned)ends[0], &type);
	assert_true(pinned >= 0 && type == S_IFIFO);
	/* It can be asked for nothing: close(2) is no flush. */
	assert_true(fcntl(pinned, F_GETFL) & O_PATH);
	close(pinned);
	pinned = limpet_proc_pin(getpid(), (unsigned)file, &type);
	assert_true(pinned >= 0 && type == S_IFREG);
	close(pinned);
	close(file);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(limpet_proc_pin(getpid(), (unsigned)ends[0], &type), -ENOENT);
	limpet_proc_root = kept;
}

/* ------------------------------------------------------------------ maps */

static void test_maps_keep_odd_paths(void **state)
{
	struct limpet_maps maps;

	(void)state;
	proc_fixture_write(
		"4711/maps", "%s",
		"1000-2000 r-xp 00000000 fe:01 77                         /opt/a b/(c) d\n"
		"2000-3000 rw-p 00001000 fe:01 77                         /tmp/new\\012line "
		"(deleted)\n"
		"3000-4000 rw-s 00000000 00:05 5  /memfd:x y (deleted)\n"
		"4000-5000 rw-p 00000000 00:00 0 \n"
		"5000-6000 ---p 00000000 00:00 0\n"
		"6000-7000 rw-p 00000000 00:00 0          [anon:my heap]\n"
		"7000-8000 r--p 00000000 fe:01 79         /opt/back\\slash\\134 \n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n");
	assert_int_equal(limpet_proc_maps_read(PID, &maps), 0);
	assert_int_equal(maps.count, 8);
	assert_string_equal(maps.list[0].path, "/opt/a b/(c) d");
	assert_string_equal(maps.list[0].perms, "r-xp");
	assert_int_equal(maps.list[0].dev_major, 0xfe);
	assert_int_equal(maps.list[0].dev_minor, 1);
	assert_int_equal(maps.list[0].inode, 77);
	assert_string_equal(maps.list[1].path, "/tmp/new\nline (deleted)");
	assert_int_equal(maps.list[1].offset, 0x1000);
	assert_string_equal(maps.list[2].path, "/memfd:x y (deleted)");
	assert_string_equal(maps.list[3].path, "");
	assert_string_equal(maps.list[4].path, "");
	assert_string_equal(maps.list[5].path, "[anon:my heap]");
	assert_string_equal(maps.list[6].path, "/opt/back\\slash\\134 ");
	assert_true(maps.list[7].start == 0xffffffffff600000ull);
	limpet_proc_maps_done(&maps);
	assert_null(maps.list);
}

static void test_maps_at_addresses(void **state)
{
	const uint64_t addresses[] = {(uintptr_t)&errno, 0x1000, (uintptr_t)test_maps_at_addresses};
	struct limpet_map maps[3];
	struct limpet_maps all;
	const char *root = limpet_proc_root;

	(void)state;
	limpet_proc_root = "/proc";
	assert_int_equal(limpet_proc_maps_at(getpid(), addresses, 3, maps), 0);
	assert_int_equal(limpet_proc_maps_read(getpid(), &all), 0);
	for (unsigned i = 0; i < 3; i++) {
		const struct limpet_map *map = limpet_proc_maps_find(&all, addresses[i]);

		assert_int_equal(maps[i].start, map ? map->start : 0);
		assert_int_equal(maps[i].end, map ? map->end : 0);
		assert_int_equal(maps[i].inode, map ? map->inode : 0);
		assert_int_equal(maps[i].offset, map ? map->offset : 0);
		assert_true(!map || !strcmp(maps[i].perms, map->perms));
	}
	limpet_proc_maps_done(&all);
	limpet_proc_root = root;
	/* A file that answers no questions. */
	proc_fixture_write("4711/maps", "%s", "1000-2000 rw-s 00003000 fe:01 77 /a\n");
	assert_int_equal(limpet_proc_maps_at(PID, (uint64_t[]){0x1800, 0x2000}, 2, maps), 0);
	assert_int_equal(maps[0].start, 0x1000);
	assert_int_equal(maps[0].inode, 77);
	assert_int_equal(maps[0].offset, 0x3000);
	assert_string_equal(maps[0].perms, "rw-s");
	assert_int_equal(maps[1].end, 0);
	proc_fixture_remove("4711/maps");
	assert_true(limpet_proc_maps_at(PID, addresses, 1, maps) < 0);
}

static void test_maps_refuse_what_the_kernel_never_writes(void **state)
{
	static const char *const lines[] = {
		"1000-2000 r-xp 00000000 fe:01 77 /cut/sho", /* no newline */
		"1000-2000 r-xp 00000000 fe:01\n",
		"1000-2000 r-xp\n",
		"1000-\n",
		"2000-1000 r-xp 00000000 fe:01 77 /x\n",
		"1000-1000 r-xp 00000000 fe:01 77 /x\n",
		"-1000-2000 r-xp 00000000 fe:01 77 /x\n",
		" 1000-2000 r-xp 00000000 fe:01 77 /x\n",
		"10000000000000000-2000 r-xp 00000000 fe:01 77 /x\n",
		"1000-2000 r-x 00000000 fe:01 77 /x\n",
		"1000-2000 r-xp 00000000 fe:1ffffffff 77 /x\n",
		"1000-2000 r-xp 00000000 fe:01 77x /x\n",
		"1000-2000 r-xp 00000000 fe:01 -7 /x\n",
		"\n",
		"junk\n",
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(lines); i++) {
		struct limpet_maps maps = {.count = 99};

		proc_fixture_write("4711/maps", "%s", lines[i]);
		if (limpet_proc_maps_read(PID, &maps) != -EBADMSG)
			fail_msg("accepted: %s", lines[i]);
		assert_int_equal(maps.count, 99);
		/* nor behind a good line */
		proc_fixture_write("4711/maps", "%s%s", "100-200 r-xp 00000000 fe:01 1 /good\n",
				   lines[i]);
		assert_int_equal(limpet_proc_maps_read(PID, &maps), -EBADMSG);
	}
	proc_fixture_write_bytes("4711/maps", "100-200 r-xp 0 0:0 1 /a\0b\n", 26);
	assert_int_equal(limpet_proc_maps_read(PID, &(struct limpet_maps){0}), -EBADMSG);
}

static void test_maps_clip_what_grew_while_being_read(void **state)
{
	struct limpet_maps maps;

	(void)state;
	proc_fixture_write("4711/maps", "%s",
			   "1000-3000 rw-p 00000000 fe:01 7 /a\n"
			   "2000-5000 rw-p 00001000 fe:01 7 /a\n"
			   "4000-5000 rw-p 00003000 fe:01 7 /a\n"
			   "5000-6000 rw-p 00000000 00:00 0 \n");
	assert_int_equal(limpet_proc_maps_read(PID, &maps), 0);
	assert_int_equal(maps.count, 3);
	assert_int_equal(maps.list[1].start, 0x3000);
	assert_int_equal(maps.list[1].end, 0x5000);
	assert_int_equal(maps.list[1].offset, 0x2000);
	assert_int_equal(maps.list[2].start, 0x5000);
	limpet_proc_maps_done(&maps);
}

static void test_maps_may_be_many(void **state)
{
	enum { MANY = 70000 }; /* more than vm.max_map_count allows by default */
	struct limpet_maps maps;
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(file);
	for (unsigned i = 0; i < MANY; i++)
		fprintf(file, "%x-%x rw-p 00000000 00:00 0 %s\n", 0x10000 + i * 0x2000,
			0x11000 + i * 0x2000, i % 2 ? "[anon:a name of some length]" : "");
	fclose(file);
	proc_fixture_write_bytes("4711/maps", text, bytes);
	free(text);
	assert_int_equal(limpet_proc_maps_read(PID, &maps), 0);
	assert_int_equal(maps.count, MANY);
	for (unsigned i = 0; i < MANY; i += 997) {
		uint64_t start = 0x10000 + (uint64_t)i * 0x2000;

		assert_ptr_equal(limpet_proc_maps_find(&maps, start), &maps.list[i]);
		assert_ptr_equal(limpet_proc_maps_find(&maps, start + 0xfff), &maps.list[i]);
		assert_null(limpet_proc_maps_find(&maps, start + 0x1000));
	}
	assert_null(limpet_proc_maps_find(&maps, 0xffff));
	assert_null(limpet_proc_maps_find(&maps, UINT64_MAX));
	limpet_proc_maps_done(&maps);
}

static void test_maps_may_be_none(void **state)
{
	struct limpet_maps maps = {.count = 99};

	(void)state;
	proc_fixture_write("4711/maps", "%s", "");
	assert_int_equal(limpet_proc_maps_read(PID, &maps), 0);
	assert_int_equal(maps.count, 0);
	assert_null(limpet_proc_maps_find(&maps, 0x1000));
	limpet_proc_maps_done(&maps);
}

static void test_smaps_name_keys_of_each_mapping(void **state)
{
	struct limpet_smaps smaps;
	struct limpet_smap smap;
	uint64_t bytes = 99;

	(void)state;
	proc_fixture_write("4711/smaps", "%s",
			   "1000-2000 r-xp 00000000 fe:01 77                   /tmp/Rss: 9 kB\n"
			   "Size:                  4 kB\n"
			   "Rss:                   4 kB\n"
			   "THPeligible:           0\n"
			   "VmFlags: rd ex mr mw me gd sl \n"
			   "2000-3000 rw-p 00000000 00:00 0 \n"
			   "2000-4000 rw-p 00000000 00:00 0 \n" /* has grown meanwhile */
			   "Rss:                   8 kB\n"
			   "4000-5000 rw-s 00000000 00:05 5  /memfd:sl gd (deleted)\n"
			   "Rss:              123456 kB\n"
			   "VmFlags: rd wr sh\n");
	assert_int_equal(limpet_proc_smaps_read(PID, &smaps), 0);
	assert_int_equal(limpet_proc_smaps_next(&smaps, &smap), 1);
	assert_int_equal(smap.map.start, 0x1000);
	assert_string_equal(smap.map.path, "/tmp/Rss: 9 kB");
	assert_true(limpet_smap_bytes(&smap, "Rss", &bytes));
	assert_int_equal(bytes, 4096);
	assert_false(limpet_smap_bytes(&smap, "Swap", &bytes));
	assert_false(limpet_smap_bytes(&smap, "THPeligible", &bytes));
	assert_true(limpet_smap_has_flag(&smap, "rd"));
	assert_true(limpet_smap_has_flag(&smap, "gd"));
	assert_true(limpet_smap_has_flag(&smap, "sl"));
	assert_false(limpet_smap_has_flag(&smap, "wr"));
	/* without any */
	assert_int_equal(limpet_proc_smaps_next(&smaps, &smap), 1);
	assert_int_equal(smap.map.start, 0x2000);
	assert_string_equal(smap.map.path, "");
	assert_false(limpet_smap_bytes(&smap, "Rss", &bytes));
	assert_false(limpet_smap_has_flag(&smap, "rd"));
	assert_int_equal(limpet_proc_smaps_next(&smaps, &smap), 1);
	assert_string_equal(smap.map.path, "/memfd:sl gd (deleted)");
	assert_true(limpet_smap_bytes(&smap, "Rss", &bytes));
	assert_int_equal(bytes, 123456 * 1024);
	assert_true(limpet_smap_has_flag(&smap, "sh"));
	assert_false(limpet_smap_has_flag(&smap, "gd"));
	assert_false(limpet_smap_has_flag(&smap, "sl"));
	assert_int_equal(limpet_proc_smaps_next(&smaps, &smap), 0);
	assert_int_equal(limpet_proc_smaps_next(&smaps, &smap), 0);
	limpet_proc_smaps_done(&smaps);

	proc_fixture_write("4711/smaps", "%s", "Rss: 4 kB\n1000-2000 r-xp\nRss: 4 kB\n");
	assert_int_equal(limpet_proc_smaps_read(PID, &smaps), 0);
	assert_int_equal(limpet_proc_smaps_next(&smaps, &smap), -EBADMSG);
	limpet_proc_smaps_done(&smaps);
	proc_fixture_remove("4711/smaps");
	assert_int_equal(limpet_proc_smaps_read(PID, &smaps), -ENOENT);
}

static bool own_memory_has_flag(const void *memory, const char *flag)
{
	struct limpet_smaps smaps;
	struct limpet_smap smap;
	bool has = false;

	assert_int_equal(limpet_proc_smaps_read(getpid(), &smaps), 0);
	while (limpet_proc_smaps_next(&smaps, &smap) > 0)
		if (smap.map.start <= (uintptr_t)memory && smap.map.end > (uintptr_t)memory)
			has = limpet_smap_has_flag(&smap, flag);
	limpet_proc_smaps_done(&smaps);
	return has;
}

static void test_own_smaps_tell_what_grows(void **state)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	void *plain = mmap(NULL, 4096, PROT_READ, flags, -1, 0);
	void *growing = mmap(NULL, 4096, PROT_READ, flags | MAP_GROWSDOWN, -1, 0);

	(void)state;
	assert_true(plain != MAP_FAILED && growing != MAP_FAILED);
	assert_true(own_memory_has_flag(growing, "gd"));
	assert_false(own_memory_has_flag(plain, "gd"));
	munmap(plain, 4096);
	munmap(growing, 4096);
}

static void test_own_maps_hold_own_addresses(void **state)
{
	struct limpet_maps maps;
	const struct limpet_map *map;
	int local = 0;

	(void)state;
	assert_int_equal(limpet_proc_maps_read(getpid(), &maps), 0);
	map = limpet_proc_maps_find(&maps, (uintptr_t)test_own_maps_hold_own_addresses);
	assert_non_null(map);
	assert_int_equal(map->perms[2], 'x');
	assert_int_equal(map->path[0], '/');
	map = limpet_proc_maps_find(&maps, (uintptr_t)&local);
	assert_non_null(map);
	assert_int_equal(map->perms[1], 'w');
	limpet_proc_maps_done(&maps);
}

/* ------------------------------------------------------------------ status and stat */

static void test_status_reads_every_field(void **state)
{
	struct limpet_proc_status status;

	(void)state;
	proc_fixture_status(PID, "node", 'R', PID, 11,
			    "NSpid:\t4711\t300\t7\nTracerPid:\t99\nCapPrm:\t000001ffffffffff\n"
			    "SigPnd:\t0000000000000001\nShdPnd:\t0000000000000006\n"
			    "SigCgt:\t0000000000000005\nCapEff:\t0000000000080000\nNoNewPrivs:"
			    "\t1\nSeccomp:\t2\n"
			    "RssFile:\t    2000 kB\nRssShmem:\t      48 kB\n");
	proc_fixture_stat(PID, "node", 0x400100, 123456789012ull);
	assert_int_equal(limpet_proc_status_read(PID, &status), 0);
	assert_string_equal(status.name, "node");
	assert_int_equal(status.state, 'R');
	assert_int_equal(status.tgid, PID);
	assert_int_equal(status.ppid, 1);
	assert_int_equal(status.tracer, 99);
	assert_int_equal(status.handlers_due, 5);
	assert_int_equal(status.ns_pid, 7);
	assert_true(status.other_pid_ns);
	assert_int_equal(status.uid, getuid());
	assert_int_equal(status.fsuid, getuid());
	assert_int_equal(status.sgid, getgid());
	assert_int_equal(status.threads, 11);
	assert_int_equal(status.fd_size, 64);
	assert_true(status.rss_bytes == 10240 * 1024ull);
	assert_true(status.file_rss_bytes == 2048 * 1024ull);
	assert_true(status.vm_bytes == 20480 * 1024ull);
	assert_true(status.cap_permitted == 0x1ffffffffffull);
	assert_true(status.cap_effective == 0x80000);
	assert_int_equal(status.seccomp, 2);
	assert_true(status.no_new_privs);
	assert_false(status.kernel_thread);
	proc_fixture_stat(PID, "kworker/0:1", 0x00208040, 1);
	assert_int_equal(limpet_proc_status_read(PID, &status), 0);
	assert_true(status.kernel_thread);
	proc_fixture_stat(PID, "iou-wrk-17", 0x00404050, 1);
	assert_int_equal(limpet_proc_status_read(PID, &status), 0);
	assert_true(status.kernel_thread);
}

static void test_names_cannot_forge_fields(void **state)
{
	/* as the kernel writes them: newline and backslash are escaped in status, not in stat */
	static const struct {
		const char *in_status, *in_stat, *name;
	} names[] = {
		{"a) Z (b", "a) Z (b", "a) Z (b"},
		{"x\\nTracerPid:\\t1", "x\nTracerPid:\\t1", "x\nTracerPid:\\t1"},
		{"back\\\\slash", "back\\slash", "back\\slash"},
		{" lead and trail ", " lead and trail ", " lead and trail "},
		{"", "", ""},
		{")", ")", ")"},
		{"State:\tZ", "State:\tZ", "State:\tZ"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++) {
		struct limpet_proc_status status;
		uint64_t ticks = 0;

		proc_fixture_status(PID, names[i].in_status, 'S', PID, 1, "TracerPid:\t0\n");
		proc_fixture_stat(PID, names[i].in_stat, 0x400100, 4242);
		assert_int_equal(limpet_proc_status_read(PID, &status), 0);
		assert_string_equal(status.name, names[i].name);
		assert_int_equal(status.state, 'S');
		assert_int_equal(status.tracer, 0);
		assert_int_equal(limpet_proc_start_time(PID, &ticks), 0);
		assert_int_equal(ticks, 4242);
	}
}

static void test_long_names_are_cut(void **state)
{
	struct limpet_proc_status status;
	char name[300];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	proc_fixture_status(PID, name, 'S', PID, 1, "");
	proc_fixture_stat(PID, "n", 0, 1);
	assert_int_equal(limpet_proc_status_read(PID, &status), 0);
	assert_int_equal(strlen(status.name), sizeof(status.name) - 1);
}

static void test_cut_status_is_refused(void **state)
{
	struct limpet_proc_status status = {.threads = 77};

	(void)state;
	/* Not that of the whole process: it takes as long as there are threads. */
	proc_fixture_stat(PID, "x", 0, 1);
	proc_fixture_write("4711/status", "%s", "");
	assert_int_equal(limpet_proc_status_read(PID, &status), -EBADMSG);
	proc_fixture_write("4711/status", "%s", "Name:\tx\nState:\tS (sleeping)\nTgid:\t4711\n");
	assert_int_equal(limpet_proc_status_read(PID, &status), -EBADMSG);
	proc_fixture_write("4711/status", "%s", "Name:\tx\nState:\tS\nTgid:\t4711\nUid:\t0\t0\n");
	assert_int_equal(limpet_proc_status_read(PID, &status), -EBADMSG);
	proc_fixture_status(PID, "x", 'S', PID, 1, "");
	proc_fixture_write("4711/task/4711/stat", "%s", "4711 (x) S 1 1");
	assert_int_equal(limpet_proc_status_read(PID, &status), -EBADMSG);
	proc_fixture_write("4711/task/4711/stat", "%s", "4711 (x");
	assert_int_equal(limpet_proc_status_read(PID, &status), -EBADMSG);
	assert_int_equal(status.threads, 77);
}

static void test_gone_and_missing_differ(void **state)
{
	struct limpet_proc_status status;
	char path[64];
	uint64_t value;

	(void)state;
	assert_int_equal(limpet_proc_status_read(PID, &status), -ESRCH);
	proc_fixture_status(PID, "x", 'S', PID, 1, "");
	assert_int_equal(limpet_proc_executable(PID, path, sizeof(path)), -ENOENT);
	assert_int_equal(limpet_proc_auxv(PID, AT_ENTRY, &value), -ENOENT);
	assert_int_equal(limpet_proc_run_time(PID, PID, &value), -ENOENT);
	assert_int_equal(limpet_proc_run_time(PID, PID + 1, &value), -ESRCH);
	assert_int_equal(limpet_proc_run_time(PID + 1, PID + 1, &value), -ESRCH);
}

/* ------------------------------------------------------------------ threads */

static void test_syscall_tells_its_three_forms_apart(void **state)
{
	struct limpet_proc_syscall call;

	(void)state;
	proc_fixture_write("4711/task/4712/syscall", "%s", "running\n");
	assert_int_equal(limpet_proc_syscall_read(PID, 4712, &call), 0);
	assert_true(call.running);
	proc_fixture_write("4711/task/4712/syscall", "%s", "-1 0x7ffd0010 0x7f1234\n");
	assert_int_equal(limpet_proc_syscall_read(PID, 4712, &call), 0);
	assert_false(call.running);
	assert_int_equal(call.number, -1);
	assert_int_equal(call.sp, 0x7ffd0010);
	assert_int_equal(call.pc, 0x7f1234);
	proc_fixture_write("4711/task/4712/syscall", "%s",
			   "232 0x3 0x7f 0x400 0xffffffffffffffff 0x0 0x8 0x7ffc 0x7fab\n");
	assert_int_equal(limpet_proc_syscall_read(PID, 4712, &call), 0);
	assert_int_equal(call.number, 232);
	assert_int_equal(call.args[0], 3);
	assert_true(call.args[3] == UINT64_MAX);
	assert_int_equal(call.args[5], 8);
	assert_int_equal(call.sp, 0x7ffc);
	assert_int_equal(call.pc, 0x7fab);
	proc_fixture_write("4711/task/4712/syscall", "%s", "232 0x3 0x7f 0x400\n");
	assert_int_equal(limpet_proc_syscall_read(PID, 4712, &call), -EBADMSG);
	proc_fixture_write("4711/task/4712/syscall", "%s", "");
	assert_int_equal(limpet_proc_syscall_read(PID, 4712, &call), -ESRCH);
}

static void test_blocked_child_shows_its_call(void **state)
{
	struct limpet_proc_syscall call = {.running = true};
	int pipes[2];
	pid_t child;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		char byte;

		close(pipes[1]);
		_exit(read(pipes[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(pipes[0]);
	/* it gets there; the test's own time limit ends a wait in vain */
	while (call.running || call.number != SYS_read)
		assert_int_equal(limpet_proc_syscall_read(child, child, &call), 0);
	assert_int_equal(call.args[0], pipes[0]);
	assert_int_equal(call.args[2], 1);
	assert_true(call.sp > 0x1000 && call.pc > 0x1000);
	close(pipes[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_thread_figures(void **state)
{
	uint64_t value = 0;

	(void)state;
	proc_fixture_write("4711/task/4712/status", "%s",
			   "Name:\tx\nSeccomp:\t2\nvoluntary_ctxt_switches:\t40\n"
			   "nonvoluntary_ctxt_switches:\t2\n");
	proc_fixture_write("4711/task/4712/schedstat", "%s", "123 456 7\n");
	assert_int_equal(limpet_proc_switches(PID, 4712, &value), 0);
	assert_int_equal(value, 42);
	assert_int_equal(limpet_proc_run_time(PID, 4712, &value), 0);
	assert_int_equal(value, 123);
	assert_int_equal(limpet_proc_task_number(target_of(PID), 4712, "Seccomp", &value), 0);
	assert_int_equal(value, 2);
	assert_int_equal(limpet_proc_task_number(target_of(PID), 4712, "Seccomp_filters", &value),
			 -ENOENT);
	proc_fixture_write("4711/task/4712/status", "%s", "Name:\tx\n");
	assert_int_equal(limpet_proc_switches(PID, 4712, &value), -EBADMSG);
	proc_fixture_write("4711/task/4712/schedstat", "%s", "123\n");
	assert_int_equal(limpet_proc_run_time(PID, 4712, &value), -EBADMSG);
}

static void test_lists_are_sorted_numbers(void **state)
{
	pid_t *tids;
	int *fds;

	(void)state;
	for (int i = 0; i < 200; i++) {
		char path[64];

		snprintf(path, sizeof(path), "4711/fd/%d", 199 - i);
		proc_fixture_write(path, "%s", "");
	}
	proc_fixture_write("4711/fd/12x", "%s", "");
	proc_fixture_write("4711/fd/-3", "%s", "");
	proc_fixture_write("4711/fd/99999999999", "%s", "");
	assert_int_equal(limpet_proc_fds(target_of(PID), &fds), 200);
	for (int i = 0; i < 200; i++)
		assert_int_equal(fds[i], i);
	free(fds);
	proc_fixture_write("4711/task/4720/stat", "%s", "");
	proc_fixture_write("4711/task/4711/stat", "%s", "");
	assert_int_equal(limpet_proc_tasks(PID, &tids), 2);
	assert_int_equal(tids[0], 4711);
	assert_int_equal(tids[1], 4720);
	free(tids);
	proc_fixture_write("12/stat", "%s", "");
	proc_fixture_write("self/stat", "%s", "");
	assert_int_equal(limpet_proc_pids(&tids), 2);
	assert_int_equal(tids[0], 12);
	assert_int_equal(tids[1], 4711);
	free(tids);
	assert_int_equal(limpet_proc_fds(target_of(12), &fds), -ENOENT);
	assert_int_equal(limpet_proc_fds(target_of(13), &fds), -ESRCH);
}

/* ------------------------------------------------------------------ identity and limits */

static void test_limits(void **state)
{
	uint64_t soft = 0;

	(void)state;
	proc_fixture_write(
		"4711/limits", "%s",
		"Max open files            256                  4096                 files\n");
	assert_int_equal(limpet_proc_limit(PID, "Max open files", &soft), 0);
	assert_int_equal(soft, 256);
	proc_fixture_write(
		"4711/limits", "%s",
		"Max open files            unlimited            unlimited            files\n");
	assert_int_equal(limpet_proc_limit(PID, "Max open files", &soft), 0);
	assert_true(soft == UINT64_MAX);
	proc_fixture_write("4711/limits", "%s", "Max open files            \n");
	assert_int_equal(limpet_proc_limit(PID, "Max open files", &soft), -EBADMSG);
	proc_fixture_write("4711/limits", "%s", "Max cpu time 1 2 seconds\n");
	assert_int_equal(limpet_proc_limit(PID, "Max open files", &soft), -EBADMSG);
}

static void test_auxv_ends_where_it_is_cut(void **state)
{
	const uint64_t words[] = {AT_PHDR, 0x1040, AT_ENTRY, 0x2000, AT_NULL, 0, AT_BASE, 0x3000};
	uint64_t value = 0;

	(void)state;
	proc_fixture_write_bytes("4711/auxv", words, sizeof(words));
	assert_int_equal(limpet_proc_auxv(PID, AT_ENTRY, &value), 0);
	assert_int_equal(value, 0x2000);
	assert_int_equal(limpet_proc_auxv(PID, AT_BASE, &value), -ENOENT);
	proc_fixture_write_bytes("4711/auxv", words, 3 * sizeof(words[0]) + 4);
	assert_int_equal(limpet_proc_auxv(PID, AT_ENTRY, &value), -ENOENT);
	assert_int_equal(value, 0x2000);
}

static void test_names_of_the_program(void **state)
{
	char text[16] = "old";

	(void)state;
	proc_fixture_write_bytes("4711/cmdline", "/usr/bin/a b\0--secret\0", 22);
	proc_fixture_link("4711/exe", "/usr/lib/a b");
	assert_int_equal(limpet_proc_argv0(target_of(PID), text, sizeof(text)), 0);
	assert_string_equal(text, "/usr/bin/a b");
	assert_int_equal(limpet_proc_argv0(target_of(PID), text, 5), 0);
	assert_string_equal(text, "/usr");
	assert_int_equal(limpet_proc_command_line(target_of(PID), text, sizeof(text)), 0);
	assert_string_equal(text, "/usr/bin/a b --");
	/* What a process says of itself. */
	proc_fixture_write_bytes("4711/cmdline", "pg: me 127.0.0.1/secret\0", 24);
	assert_int_equal(limpet_proc_argv0(target_of(PID), text, sizeof(text)), 0);
	assert_string_equal(text, "pg");
	proc_fixture_write_bytes("4711/cmdline", "a\0b c\0\0", 7);
	assert_int_equal(limpet_proc_command_line(target_of(PID), text, sizeof(text)), 0);
	assert_string_equal(text, "a b c");
	proc_fixture_write("4711/cmdline", "%s", "");
	assert_int_equal(limpet_proc_command_line(target_of(PID), text, sizeof(text)), 0);
	assert_string_equal(text, "");
	proc_fixture_link("4711/exe", "/a/long/path/of/a/program (deleted)");
	assert_int_equal(limpet_proc_executable(PID, text, sizeof(text)), 0);
	assert_string_equal(text, "/a/long/path/of");
	assert_int_equal(limpet_proc_argv0(target_of(PID + 1), text, sizeof(text)), -ESRCH);
	assert_string_equal(text, "");
}

static void test_self_agrees_with_the_kernel(void **state)
{
	struct limpet_proc_status status;
	struct rlimit limit;
	uint64_t value = 0;
	int *fds, count;
	char text[64];

	(void)state;
	assert_int_equal(limpet_proc_status_read(getpid(), &status), 0);
	assert_int_equal(status.tgid, getpid());
	assert_int_equal(status.ppid, getppid());
	assert_int_equal(status.euid, geteuid());
	assert_int_equal(status.state, 'R');
	assert_true(status.rss_bytes > 100000);
	assert_int_equal(limpet_proc_auxv(getpid(), AT_ENTRY, &value), 0);
	assert_true(value == getauxval(AT_ENTRY));
	getrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(limpet_proc_limit(getpid(), "Max open files", &value), 0);
	assert_true(value == limit.rlim_cur);
	count = limpet_proc_fds(target_of(getpid()), &fds);
	assert_true(count >= 3);
	free(fds);
	assert_int_equal(limpet_proc_link_read(getpid(), "ns/pid", text, sizeof(text)), 0);
	assert_memory_equal(text, "pid:[", 5);
}

static void test_a_thread_settles_once_it_has_run(void **state)
{
	const uint64_t limit_ms = 30;
	uint64_t began_ns;
	pid_t held = fork(), busy;
	int status;

	(void)state;
	if (!held) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	busy = fork();
	if (!busy) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			;
	}
	assert_int_equal(limpet_proc_settle(target_of(busy), CLOCK_FIXTURE_NEVER), 0);
	assert_int_equal(waitpid(held, &status, 0), held);
	/* Each round takes a millisecond. */
	clock_fixture_step(1000000);
	began_ns = clock_fixture_ns();
	assert_int_equal(limpet_proc_settle(target_of(held), began_ns + limit_ms * 1000000),
			 -ETIMEDOUT);
	assert_int_equal(clock_fixture_ns() - began_ns, limit_ms * 1000000);
	clock_fixture_step(0);
	assert_int_equal(ptrace(PTRACE_DETACH, held, NULL, NULL), 0);
	assert_int_equal(limpet_proc_settle(target_of(held), CLOCK_FIXTURE_NEVER), 0);
	kill(busy, SIGKILL);
	kill(held, SIGKILL);
	waitpid(busy, &status, 0);
	waitpid(held, &status, 0);
	assert_int_equal(limpet_proc_settle(target_of(held), CLOCK_FIXTURE_NEVER), -ESRCH);
}

/* Down a stack: as far as it goes without a hole. */
static void test_memory_is_probed_up_to_the_first_hole(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *pages = mmap(NULL, 80 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addresses[80];

	(void)state;
	assert_true(pages != MAP_FAILED);
	for (size_t i = 0; i < 80; i++)
		addresses[i] = (uint64_t)(uintptr_t)(pages + (79 - i) * page);
	assert_int_equal(limpet_memory_probe(getpid(), addresses, 3), 3);
	assert_int_equal(limpet_memory_probe(getpid(), addresses, 80), 64);
	assert_int_equal(munmap(pages + 77 * page, page), 0);
	assert_int_equal(limpet_memory_probe(getpid(), addresses, 5), 2);
	assert_int_equal(limpet_memory_probe(getpid(), addresses + 2, 5), 0);
	munmap(pages, 80 * page);
}

/* A first thread's block may end with the mapping: node's does, 896 bytes behind the pointer. */
static void test_the_tid_is_found_where_memory_ends(void **state)
{
	const size_t page = 4096, distances[] = {896, 1024, 4096, 5000};
	const uint32_t tid = 0x5a5a5a5a, glibc_offset = 720, other_offset = 48;
	uint8_t *pages =
		mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(pages != MAP_FAILED);
	assert_int_equal(munmap(pages + 2 * page, page), 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(distances); i++) {
		uint8_t *block = pages + 2 * page - distances[i];
		uint64_t pointer = (uint64_t)(uintptr_t)block;

		memset(pages, 0, 2 * page);
		assert_int_equal(limpet_tid_offset_find(target_of(getpid()), (pid_t)tid, pointer,
							(uint64_t)(uintptr_t)(pages + 2 * page)),
				 0);
		memcpy(block + other_offset, &tid, sizeof(tid));
		assert_int_equal(limpet_tid_offset_find(target_of(getpid()), (pid_t)tid, pointer,
							(uint64_t)(uintptr_t)(pages + 2 * page)),
				 other_offset);
		memcpy(block + glibc_offset, &tid, sizeof(tid));
		assert_int_equal(limpet_tid_offset_find(target_of(getpid()), (pid_t)tid, pointer,
							(uint64_t)(uintptr_t)(pages + 2 * page)),
				 glibc_offset);
		/* What is beyond the end is another's. */
		assert_int_equal(limpet_tid_offset_find(target_of(getpid()), (pid_t)tid, pointer,
							pointer + other_offset),
				 0);
		/* Twice, and neither is glibc's: it may be any of them. */
		memset(block + glibc_offset, 0, sizeof(tid));
		memcpy(block + 2 * other_offset, &tid, sizeof(tid));
		assert_int_equal(limpet_tid_offset_find(target_of(getpid()), (pid_t)tid, pointer,
							(uint64_t)(uintptr_t)(pages + 2 * page)),
				 0);
	}
	assert_int_equal(munmap(pages, 2 * page), 0);
	assert_int_equal(limpet_tid_offset_find(target_of(getpid()), (pid_t)tid, 0, page), 0);
}

struct own_stack {
	uint64_t lowest, beside, noted;
};

static void *look_at_own_stack(void *argument)
{
	const uint64_t pointer = (uint64_t)(uintptr_t)pthread_self(), end = pointer + 4096;
	struct own_stack *own = argument;
	pthread_attr_t attributes;
	size_t bytes;
	void *stack;

	if (pthread_getattr_np(pthread_self(), &attributes) ||
	    pthread_attr_getstack(&attributes, &stack, &bytes))
		return NULL;
	own->noted = (uint64_t)(uintptr_t)stack;
	own->lowest = limpet_stack_lowest(getpid(), pointer, end, (uint64_t)(uintptr_t)&own);
	own->beside = limpet_stack_lowest(getpid(), pointer, end, own->noted - 1);
	return own;
}

static void test_where_a_stack_ends(void **state)
{
	static unsigned char given[64 << 10] __attribute__((aligned(4096)));
	pthread_attr_t attributes;
	struct own_stack own = {0};
	pthread_t thread;
	void *answer;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, look_at_own_stack, &own), 0);
	assert_int_equal(pthread_join(thread, &answer), 0);
	assert_non_null(answer);
	assert_int_equal(own.lowest, own.noted);
	assert_int_equal(own.beside, 0);
	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstack(&attributes, given, sizeof(given)), 0);
	assert_int_equal(pthread_create(&thread, &attributes, look_at_own_stack, &own), 0);
	assert_int_equal(pthread_join(thread, &answer), 0);
	assert_non_null(answer);
	assert_int_equal(own.lowest, (uint64_t)(uintptr_t)given);
	assert_int_equal(own.beside, 0);
}

/* As musl 1.2.3 has them, in words. */
static void test_where_a_stack_of_musls_ends(void **state)
{
	static uint64_t block[64];
	const uint64_t pointer = (uint64_t)(uintptr_t)block, end = pointer + sizeof(block);
	const uint64_t stack_end = pointer - 24, bytes = 0x20000;

	(void)state;
	block[0] = pointer;
	block[11] = stack_end;
	block[12] = bytes;
	assert_int_equal(limpet_stack_lowest(getpid(), pointer, end, stack_end - 8),
			 stack_end - bytes);
	assert_int_equal(limpet_stack_lowest(getpid(), pointer, end, stack_end - bytes - 8), 0);
	assert_int_equal(limpet_stack_lowest(getpid(), pointer, end, stack_end + 8), 0);
	block[12] = 0;
	assert_int_equal(limpet_stack_lowest(getpid(), pointer, end, stack_end - 8), 0);
}

int main(void)
{
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		WITH_ROOT(test_container_ids),
		WITH_ROOT(test_memory_of_a_group),
		WITH_ROOT(test_names_of_groups),
		cmocka_unit_test(test_a_descriptor_is_held_and_nobody_asked),
		WITH_ROOT(test_maps_keep_odd_paths),
		WITH_ROOT(test_maps_at_addresses),
		WITH_ROOT(test_maps_refuse_what_the_kernel_never_writes),
		WITH_ROOT(test_maps_clip_what_grew_while_being_read),
		WITH_ROOT(test_maps_may_be_many),
		WITH_ROOT(test_maps_may_be_none),
		WITH_ROOT(test_smaps_name_keys_of_each_mapping),
		cmocka_unit_test(test_own_smaps_tell_what_grows),
		cmocka_unit_test(test_own_maps_hold_own_addresses),
		WITH_ROOT(test_status_reads_every_field),
		WITH_ROOT(test_names_cannot_forge_fields),
		WITH_ROOT(test_long_names_are_cut),
		WITH_ROOT(test_cut_status_is_refused),
		WITH_ROOT(test_gone_and_missing_differ),
		WITH_ROOT(test_syscall_tells_its_three_forms_apart),
		cmocka_unit_test(test_blocked_child_shows_its_call),
		WITH_ROOT(test_thread_figures),
		WITH_ROOT(test_lists_are_sorted_numbers),
		WITH_ROOT(test_limits),
		WITH_ROOT(test_auxv_ends_where_it_is_cut),
		WITH_ROOT(test_names_of_the_program),
		cmocka_unit_test(test_self_agrees_with_the_kernel),
		cmocka_unit_test(test_a_thread_settles_once_it_has_run),
		cmocka_unit_test(test_memory_is_probed_up_to_the_first_hole),
		cmocka_unit_test(test_the_tid_is_found_where_memory_ends),
		cmocka_unit_test(test_where_a_stack_ends),
		cmocka_unit_test(test_where_a_stack_of_musls_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
