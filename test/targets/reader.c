/* reader: a program that looks at its own mappings, as conservative garbage collectors, heap
 * checkers, crash reporters and checkpointers do.
 *
 * "ready PID"; "list" notes which mappings /proc says can be read, and answers how many; "read"
 * reads each page of those; "forbid" has the program killed at any mmap(2) that makes readable
 * memory, except of the size that a filter is asked about before; "keep N" allocates N blocks that
 * stay; "work N" allocates and frees N; "search" looks for addresses of the blocks that stay in all
 * memory that can be written and is not listed as readable, and answers how many it found, and how
 * many MiB it searched. "quit". */
#include <fcntl.h>
#include <sys/mman.h>

#include "test/call_filter.h"
#include "test/targets/target.h"

#define PAGE 4096ul
#define MOST_RANGES 4096
#define MOST_BLOCKS 65536ul
#define ASKED_BYTES 65536

struct range {
	uintptr_t start, end;
};

static struct range ranges[MOST_RANGES];
static size_t range_count;
static char text[1 << 20];
static uintptr_t blocks[MOST_BLOCKS]; /* complemented */
static size_t block_count;

/* No block of the heap's is needed for it. */
static void read_maps(void)
{
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t bytes = 0;
	ssize_t got;

	while ((got = read(file, text + bytes, sizeof(text) - 1 - bytes)) > 0)
		bytes += (size_t)got;
	if (got < 0 || close(file) || bytes == sizeof(text) - 1)
		target_broken("no list of mappings");
	text[bytes] = 0;
}

/* Those whose permissions begin as `wanted` does, but for what the kernel maps. */
static void note_ranges(const char *wanted)
{
	read_maps();
	range_count = 0;
	for (char *line = text; *line; line = strchr(line, '\n') + 1) {
		struct range range;
		char permissions[8], path[16] = "";

		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s%*[ ]%15[^\n]", &range.start, &range.end,
			   permissions, path) < 3)
			target_broken("no line of mappings: %.60s", line);
		if (strncmp(permissions, wanted, strlen(wanted)) || !strncmp(path, "[v", 2))
			continue;
		if (range_count == MOST_RANGES)
			target_broken("too many mappings");
		ranges[range_count++] = range;
	}
}

static void read_all(void)
{
	for (size_t i = 0; i < range_count; i++)
		for (uintptr_t at = ranges[i].start; at < ranges[i].end; at += PAGE)
			(void)*(volatile const char *)at;
}

static void forbid(void)
{
	const size_t args = offsetof(struct seccomp_data, args);
	struct call_filter filter = {0};

	call_filter_load(&filter, offsetof(struct seccomp_data, nr));
	call_filter_skip(&filter, SYS_mmap, 0, 5);
	call_filter_load(&filter, args + 8);
	call_filter_skip(&filter, ASKED_BYTES, 3, 0);
	call_filter_load(&filter, args + 16);
	call_filter_add(&filter,
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_READ, 0, 1));
	call_filter_end(&filter, SECCOMP_RET_KILL_PROCESS);
	call_filter_end(&filter, SECCOMP_RET_ALLOW);
	if (call_filter_install(&filter, 0))
		target_broken("no filter");
}

TARGET_FRAME static void reader_keep(unsigned long count)
{
	for (unsigned long i = 0; i < count && block_count < MOST_BLOCKS; i++) {
		void *block = malloc(100);

		if (!block)
			target_broken("no memory");
		blocks[block_count++] = ~(uintptr_t)block;
	}
}

TARGET_FRAME static void reader_work(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		void *block = malloc(100);

		if (!block)
			target_broken("no memory");
		TARGET_KEEP_FRAME();
		free(block);
	}
}

static int compare(const void *a, const void *b)
{
	const uintptr_t left = *(const uintptr_t *)a, right = *(const uintptr_t *)b;

	return (left > right) - (left < right);
}

static void search(void)
{
	size_t found = 0, bytes = 0;

	qsort(blocks, block_count, sizeof(*blocks), compare);
	note_ranges("-w");
	for (size_t i = 0; i < range_count; i++) {
		bytes += ranges[i].end - ranges[i].start;
		for (uintptr_t at = ranges[i].start; at < ranges[i].end; at += sizeof(at)) {
			const uintptr_t word = ~*(volatile const uintptr_t *)at;

			found += bsearch(&word, blocks, block_count, sizeof(*blocks), compare) !=
				 NULL;
		}
	}
	target_say("found %zu in %zu MiB", found, bytes >> 20);
}

int main(void)
{
	char line[256];
	unsigned long n;

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "list")) {
			note_ranges("r");
			target_say("listed %zu", range_count);
		} else if (!strcmp(line, "read")) {
			read_all();
			target_say("read");
		} else if (!strcmp(line, "forbid")) {
			forbid();
			target_say("forbidden");
		} else if (target_word(line, "keep", &n)) {
			reader_keep(n);
			target_say("kept");
		} else if (target_word(line, "work", &n)) {
			reader_work(n);
			target_say("worked");
		} else if (!strcmp(line, "search")) {
			search();
		} else if (!strcmp(line, "quit")) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
