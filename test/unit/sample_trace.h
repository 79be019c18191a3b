/* A small trace of a real program, for tests of what reads traces: a program is compiled, its
 * functions are found in its symbol table, and a capture of it is written by the recorder.
 *
 * Stacks, innermost first (module in brackets):
 *   LEAK    grow (inlined) < leak < main          [prog]
 *   COPY    strdup [libc] < leak < main           [prog]
 *   JIT     0x7f0000001235 < 0x7f0000002346 [none] < main [prog]
 *   EVIL    a module whose name holds control characters and broken UTF-8, and has no file
 *   MALLOC1, MALLOC2  two places in libc's malloc < spin < main: they differ in noise only */
#ifndef LIMPET_TEST_SAMPLE_TRACE_H
#define LIMPET_TEST_SAMPLE_TRACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/symbols/symbolize.h"
#include "collector/record/recorder.h"
#include "common/wire.h"

static const char sample_source[] =
	"#include <stdlib.h>\n"                                                   /* 1 */
	"volatile int sink;\n"                                                    /* 2 */
	"static inline __attribute__((always_inline))\n"                          /* 3 */
	"void *grow(int n) {\n"                                                   /* 4 */
	"	return malloc(n);\n"                                              /* 5 */
	"}\n"                                                                     /* 6 */
	"__attribute__((noinline)) void *leak(int n) {\n"                         /* 7 */
	"	void *p = grow(n);\n"                                             /* 8 */
	"	sink++;\n"                                                        /* 9 */
	"	return p;\n"                                                      /* 10 */
	"}\n"                                                                     /* 11 */
	"__attribute__((noinline)) void spin(int n) { for (; n; n--) sink++; }\n" /* 12 */
	"int main(void) {\n"                                                      /* 13 */
	"	spin(3);\n"                                                       /* 14 */
	"	return leak(3) == 0;\n"                                           /* 15 */
	"}\n";                                                                    /* 16 */

enum {
	SAMPLE_MAIN = 1,
	SAMPLE_LEAK,
	SAMPLE_LEAK_CALLS,
	SAMPLE_COPY,
	SAMPLE_JIT_OUTER,
	SAMPLE_JIT,
	SAMPLE_EVIL,
	SAMPLE_SPIN,
	SAMPLE_MALLOC1,
	SAMPLE_MALLOC2
};

#define SAMPLE_CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SAMPLE_BIAS 0x555500000000ull
#define SAMPLE_EVIL_PATH "/nowhere/evil\x1b[31m\xff\n.so"

/* Nothing in it is unknown. */
static struct limpet_resident_row sample_rows[] = {
	{.kind = "glibc-main-heap", .owner = "glibc's main heap", .bytes = 40u << 20},
	{.kind = "file-pages", .owner = "pages of programs and libraries", .bytes = 10u << 20}};
static const struct limpet_resident_account sample_account = {
	.known = true, .rss_bytes = 50u << 20, .rows = sample_rows, .count = 2};

struct sample {
	char directory[64];
	char program[96]; /* path */
	char trace[96];
	uint64_t leak_at, main_at, spin_at; /* addresses of calls in the program's file */
	uint64_t libc_bias, strdup_at, malloc_at;
	char libc[PATH_MAX];
	uint32_t program_module;
	uint64_t next_block;
	uint64_t now_ns;
	bool pages; /* as `limpet pages` writes it */
	const struct limpet_resident_account
		*account; /* before the capture; NULL: sample_account */
	const struct limpet_object_counts *objects;
	const struct limpet_leak_counts *leaks; /* at the end */
};

/* First address whose innermost function and file's line are these. */
static uint64_t sample_find(const struct sample *sample, const char *function, uint32_t line)
{
	const struct limpet_symbolizer_options options = {.path = sample->program, .fd = -1};
	struct limpet_symbolizer *symbolizer;
	uint64_t found = 0;

	assert_int_equal(limpet_symbolizer_open(&options, &symbolizer, NULL), 0);
	for (uint64_t at = 0; at < 0x10000 && !found; at++) {
		const struct limpet_symbol *list;
		int count = limpet_symbolizer_resolve(symbolizer, at, &list);

		if (count && list[0].function && !strcmp(list[0].function, function) &&
		    list[0].line == line)
			found = at;
	}
	limpet_symbolizer_close(symbolizer);
	assert_true(found != 0);
	return found;
}

static void sample_locate_libc(struct sample *sample)
{
	/* Not RTLD_DEFAULT: sanitizers put their own in front. */
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	void *at = libc ? dlsym(libc, "strdup") : NULL;
	Dl_info info;

	assert_non_null(at);
	assert_true(dladdr(at, &info) != 0);
	sample->libc_bias = (uint64_t)(uintptr_t)info.dli_fbase;
	sample->strdup_at = (uint64_t)(uintptr_t)at - sample->libc_bias + 4;
	assert_non_null(realpath(info.dli_fname, sample->libc));
	at = dlsym(libc, "malloc");
	assert_non_null(at);
	sample->malloc_at = (uint64_t)(uintptr_t)at - sample->libc_bias;
	if (libc)
		dlclose(libc);
}

static void sample_init(struct sample *sample)
{
	char command[512];
	FILE *file;

	memset(sample, 0, sizeof(*sample));
	strcpy(sample->directory, "/tmp/limpet-sample.XXXXXX");
	assert_non_null(mkdtemp(sample->directory));
	snprintf(sample->program, sizeof(sample->program), "%s/prog", sample->directory);
	snprintf(sample->trace, sizeof(sample->trace), "%s/prog.limpet", sample->directory);
	snprintf(command, sizeof(command), "%s.c", sample->program);
	file = fopen(command, "w");
	if (!file || fputs(sample_source, file) < 0 || fclose(file))
		fail_msg("cannot write %s", command);
	snprintf(command, sizeof(command), "cc -g -O2 -o %s %s.c", sample->program,
		 sample->program);
	assert_int_equal(system(command), 0);
	sample->leak_at = sample_find(sample, "grow", 5);
	sample->main_at = sample_find(sample, "main", 15);
	sample->spin_at = sample_find(sample, "spin", 12);
	sample_locate_libc(sample);
	sample->next_block = 0x600000000000ull;
}

static void sample_done(struct sample *sample)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", sample->directory);
	assert_int_equal(system(command), 0);
}

/* An event at the sample's time; answers the block's address. */
static uint64_t sample_allocate(struct sample *sample, struct limpet_recorder *recorder,
				uint32_t node, uint64_t size)
{
	const struct limpet_record record = {.time_ns = sample->now_ns,
					     .address = sample->next_block,
					     .size = size,
					     .node = node,
					     .thread = 4711,
					     .kind = LIMPET_EVENT_ALLOC};

	sample->next_block += (size + 31) & ~15ull;
	assert_true(limpet_recorder_add_event(recorder, &record) >= 0);
	return record.address;
}

static void sample_release(struct sample *sample, struct limpet_recorder *recorder,
			   uint64_t address, uint64_t usable)
{
	const struct limpet_record record = {.time_ns = sample->now_ns,
					     .address = address,
					     .size = usable,
					     .thread = 4711,
					     .kind = LIMPET_EVENT_FREE};

	assert_true(limpet_recorder_add_event(recorder, &record) >= 0);
}

static void sample_map(struct sample *sample, struct limpet_recorder *recorder, uint32_t node,
		       uint64_t address, uint64_t size)
{
	const struct limpet_record record = {.time_ns = sample->now_ns,
					     .address = address,
					     .size = size,
					     .node = node,
					     .thread = 4711,
					     .kind = LIMPET_EVENT_MMAP};

	assert_true(limpet_recorder_add_event(recorder, &record) >= 0);
}

static uint32_t sample_add_module(struct limpet_recorder *recorder, uint64_t bias, const char *path)
{
	const struct limpet_recorder_module module = {
		.start = bias, .end = bias + 0x1000000, .bias = bias, .path = path};
	int number = limpet_recorder_add_module(recorder, &module);
	struct limpet_file_identity identity = {.has_checksum = true};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(number > 0);
	if (fd >= 0 && limpet_file_identity_checksum(fd, &identity.checksum) == 0)
		limpet_recorder_identify_module(recorder, (uint32_t)number, &identity);
	if (fd >= 0)
		close(fd);
	return (uint32_t)number;
}

/* An open recorder that knows the modules and nodes above. */
static struct limpet_recorder *sample_open(struct sample *sample, double unseen_rss_share)
{
	const struct limpet_recorder_options options = {.path = sample->trace,
							.owner_uid = getuid(),
							.owner_gid = getgid(),
							.memory_bytes = 64u << 20,
							.mode = LIMPET_MODE_ATTACH,
							.pid = 4711,
							.comm = "prog",
							.command = "./prog",
							.executable = sample->program,
							.start_ticks = 1,
							.wall_ns = 1700000000000000000ull,
							.max_depth = 64,
							.unseen_rss_share = unseen_rss_share,
							.allocators = "glibc 2.36",
							.container = SAMPLE_CONTAINER,
							.cgroup_limit_bytes = 1u << 30,
							.account =
								sample->account ?: &sample_account,
							.objects = sample->objects,
							.pages = sample->pages};
	struct limpet_recorder *recorder;
	struct limpet_err err = {0};
	uint32_t prog, libc, evil;

	sample->now_ns = 0;
	unlink(sample->trace);
	if (limpet_recorder_open(&options, &recorder, &err) < 0)
		fail_msg("%s", err.message);
	prog = sample_add_module(recorder, SAMPLE_BIAS, sample->program);
	libc = sample_add_module(recorder, sample->libc_bias, sample->libc);
	evil = sample_add_module(recorder, 0x7e0000000000ull, SAMPLE_EVIL_PATH);
	sample->program_module = prog;

	/* Return addresses: one behind the call. */
	const struct {
		uint32_t node, parent, module;
		uint64_t address;
	} nodes[] = {
		{SAMPLE_MAIN, 0, prog, SAMPLE_BIAS + sample->main_at + 1},
		{SAMPLE_LEAK, SAMPLE_MAIN, prog, SAMPLE_BIAS + sample->leak_at + 1},
		{SAMPLE_LEAK_CALLS, SAMPLE_MAIN, prog, SAMPLE_BIAS + sample->leak_at + 1},
		{SAMPLE_COPY, SAMPLE_LEAK_CALLS, libc, sample->libc_bias + sample->strdup_at + 1},
		{SAMPLE_JIT_OUTER, SAMPLE_MAIN, 0, 0x7f0000002346ull},
		{SAMPLE_JIT, SAMPLE_JIT_OUTER, 0, 0x7f0000001235ull},
		{SAMPLE_EVIL, 0, evil, 0x7e0000001235ull},
		{SAMPLE_SPIN, SAMPLE_MAIN, prog, SAMPLE_BIAS + sample->spin_at + 1},
		{SAMPLE_MALLOC1, SAMPLE_SPIN, libc, sample->libc_bias + sample->malloc_at + 5},
		{SAMPLE_MALLOC2, SAMPLE_SPIN, libc, sample->libc_bias + sample->malloc_at + 9},
	};
	for (size_t i = 0; i < LIMPET_COUNT_OF(nodes); i++)
		assert_true(limpet_recorder_add_node(
				    recorder, nodes[i].node, nodes[i].parent, nodes[i].address,
				    nodes[i].module,
				    nodes[i].module ? 0 : LIMPET_TRACE_NODE_MADE) >= 0);
	return recorder;
}

static void sample_finish(struct sample *sample, struct limpet_recorder *recorder,
			  uint64_t dropped_events)
{
	const struct limpet_recorder_tick tick = {.time_ns = sample->now_ns,
						  .rss_bytes = 50u << 20,
						  .cgroup_bytes = 70u << 20,
						  .dropped_events = dropped_events};
	const struct limpet_recorder_end end = {.end = LIMPET_END_STOP,
						.time_ns = sample->now_ns,
						.agent_unloaded = true,
						.attach_stop_us = 417,
						.detach_stop_us = 1200,
						.agent_memory_bytes = 1 << 20,
						.account = &sample_account,
						.leaks = sample->leaks};

	assert_true(limpet_recorder_finish(recorder, &tick, &end) >= 0);
	limpet_recorder_free(recorder);
}

static inline void sample_tick(struct sample *sample, struct limpet_recorder *recorder)
{
	const struct limpet_recorder_tick tick = {
		.time_ns = sample->now_ns, .rss_bytes = 50u << 20, .cgroup_bytes = 70u << 20};

	assert_true(limpet_recorder_tick(recorder, &tick) >= 0);
}

/* The capture that most tests use; two seconds:
 *   LEAK    10 x 1000 bytes, 4 freed          -> live 6000
 *   COPY     3 x 100                          -> live 300
 *   JIT      2 x 5000                         -> live 10000
 *   EVIL     1 x 10                           -> live 10
 *   MALLOC1  5 x 64, MALLOC2 5 x 64           -> live 640
 *   spin     mmap of 1 MiB; one foreign free of 48 bytes; one block of an unknown stack, 7 bytes */
#define SAMPLE_LIVE_BYTES (6000u + 300u + 10000u + 10u + 640u + 7u)
#define SAMPLE_ALLOCATIONS (10u + 3u + 2u + 1u + 10u + 1u)
static inline void sample_write(struct sample *sample)
{
	struct limpet_recorder *recorder = sample_open(sample, -1);
	uint64_t blocks[10];

	for (int i = 0; i < 10; i++) {
		sample->now_ns += 50000000;
		blocks[i] = sample_allocate(sample, recorder, SAMPLE_LEAK, 1000);
	}
	for (int i = 0; i < 3; i++)
		sample_allocate(sample, recorder, SAMPLE_COPY, 100);
	sample->now_ns = 1000000000;
	sample_tick(sample, recorder);
	sample->now_ns = 1500000000;
	for (int i = 0; i < 2; i++)
		sample_allocate(sample, recorder, SAMPLE_JIT, 5000);
	sample_allocate(sample, recorder, SAMPLE_EVIL, 10);
	sample_allocate(sample, recorder, 0, 7);
	for (int i = 0; i < 5; i++) {
		sample_allocate(sample, recorder, SAMPLE_MALLOC1, 64);
		sample_allocate(sample, recorder, SAMPLE_MALLOC2, 64);
	}
	sample_map(sample, recorder, SAMPLE_SPIN, 0x7d0000000000ull, 1 << 20);
	sample_release(sample, recorder, 0x123450, 48);
	for (int i = 0; i < 4; i++)
		sample_release(sample, recorder, blocks[i], 1008);
	sample->now_ns = 2000000000;
	sample_finish(sample, recorder, 0);
}

#endif
