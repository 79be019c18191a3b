/* Files of /proc, as far as a target has a hand in them: its name, its paths, its cgroup.
 *
 * Byte 0 says which file of an otherwise ordinary process has the rest as its content. */
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/preflight/dormant.h"
#include "injector/preflight/preflight.h"
#include "injector/proc/proc.h"
#include "test/unit/target_of.h"

/* Beyond what the kernel gives: nobody is touched by a call that goes to the kernel itself. */
#define PID 99999999
#define PID_TEXT "99999999"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In `make test`: a second's worth. */
extern unsigned long fuzz_mutations;
unsigned long fuzz_mutations = 1000;

static const struct {
	const char *name, *content;
} files[] = {
	{PID_TEXT "/maps", "560000000000-560000001000 r-xp 00000000 08:01 11 /usr/bin/a\n"
			   "7f0000000000-7f0000200000 r-xp 00000000 08:01 12 /lib/libc.so.6\n"},
	{PID_TEXT "/status", "Name:\ta\nState:\tS (sleeping)\nTgid:\t" PID_TEXT "\nPid:\t" PID_TEXT
			     "\nPPid:\t1\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n"
			     "FDSize:\t64\nVmSize:\t1 kB\nVmRSS:\t1 kB\nThreads:\t1\n"
			     "CapPrm:\t0\nCapEff:\t0\nNoNewPrivs:\t0\nSeccomp:\t0\n"},
	{PID_TEXT "/stat", PID_TEXT " (a) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 77 1 1\n"},
	{PID_TEXT "/smaps",
	 "560000000000-560000001000 r-xp 00000000 08:01 11 /usr/bin/a\nRss: 4 kB\n"},
	{PID_TEXT "/limits", "Max open files            1024                 4096        files\n"},
	{PID_TEXT "/auxv", ""},
	{PID_TEXT "/cmdline", "a"},
	{PID_TEXT "/cgroup", "0::/a\n"},
	{PID_TEXT "/task/" PID_TEXT "/syscall",
	 "0 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffe0000 0x7f0000001\n"},
	{PID_TEXT "/task/" PID_TEXT "/status",
	 "voluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t2\n"},
	{PID_TEXT "/task/" PID_TEXT "/schedstat", "1 2 3\n"},
	{"self/mountinfo", "30 23 0:26 / /nowhere rw - cgroup2 cgroup2 rw\n"},
};

static char directory[64];

static void put(const char *name, const void *data, size_t size)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	for (char *slash = path + strlen(directory) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
}

static void clean(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (system(command))
		fprintf(stderr, "%s failed\n", command);
}

static void begin(void)
{
	strcpy(directory, "/dev/shm/limpet-fuzz-XXXXXX");
	if (!mkdtemp(directory))
		abort();
	atexit(clean);
	limpet_proc_root = directory;
	for (size_t i = 0; i < LIMPET_COUNT_OF(files); i++)
		put(files[i].name, files[i].content, strlen(files[i].content));
}

static void read_maps(void)
{
	struct limpet_maps maps;
	uint64_t end = 0;

	if (limpet_proc_maps_read(PID, &maps) < 0)
		return;
	for (size_t i = 0; i < maps.count; i++) {
		const struct limpet_map *map = &maps.list[i];

		if (map->start < end || map->end <= map->start || strlen(map->perms) != 4 ||
		    limpet_proc_maps_find(&maps, map->start) != map)
			abort();
		end = map->end;
		(void)limpet_allocator_of_library(map->path);
	}
	limpet_proc_maps_done(&maps);
}

static void read_smaps(void)
{
	struct limpet_smaps smaps;
	struct limpet_smap smap;
	uint64_t bytes;

	if (limpet_proc_smaps_read(PID, &smaps) < 0)
		return;
	while (limpet_proc_smaps_next(&smaps, &smap) > 0) {
		if (smap.map.end <= smap.map.start || strlen(smap.map.perms) != 4)
			abort();
		(void)limpet_smap_bytes(&smap, "Rss", &bytes);
		(void)limpet_smap_has_flag(&smap, "gd");
	}
	limpet_proc_smaps_done(&smaps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct limpet_preflight preflight;
	struct limpet_proc_syscall call;
	struct limpet_proc_status status;
	struct limpet_err err;
	uint64_t value, other;
	char text[64];
	size_t which;

	if (!directory[0])
		begin();
	if (!size)
		return 0;
	which = data[0] % LIMPET_COUNT_OF(files);
	put(files[which].name, data + 1, size - 1);
	read_maps();
	read_smaps();
	if (limpet_proc_status_read(PID, &status) == 0 &&
	    strnlen(status.name, sizeof(status.name)) == sizeof(status.name))
		abort();
	(void)limpet_proc_start_time(PID, &value);
	(void)limpet_proc_syscall_read(PID, PID, &call);
	(void)limpet_proc_switches(PID, PID, &value);
	(void)limpet_proc_run_time(PID, PID, &value);
	(void)limpet_proc_task_number(target_of(PID), PID, "TracerPid", &value);
	(void)limpet_proc_limit(PID, "Max open files", &value);
	(void)limpet_proc_auxv(PID, 3, &value);
	(void)limpet_proc_argv0(target_of(PID), text, sizeof(text));
	(void)limpet_proc_command_line(target_of(PID), text, sizeof(text));
	(void)limpet_unseen_rss(target_of(PID), &value, &other);
	if (limpet_dormant_check(target_of(PID)) > 1)
		abort();
	(void)limpet_preflight_run(target_of(PID), NULL, &preflight, &err);
	put(files[which].name, files[which].content, strlen(files[which].content));
	return 0;
}
