/* What the collector costs an event, stage by stage: made-up threads write chunks as the agent
 * does, and all that comes after is the real thing, down to a trace in memory. It counts processor
 * time (of the whole process, less what the made-up threads take), so that a busy machine matters
 * less; for information all the same.
 *
 *     bench_collector [-e EVENTS] [-c CASE] [-j JSON-FILE] [-o TRACE]
 *
 * The linker leads the calls between the stages through here (--wrap): the time between two of them
 * belongs to the innermost stage. It is wall time, since a clock of processor time needs a system
 * call: stages in which a thread waits are too long, and `other`, the rest, is too short. */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collector/record/accounting.h"
#include "collector/record/event_columns.h"
#include "collector/record/recorder.h"
#include "collector/record/trace_writer.h"
#include "collector/stream/collector.h"
#include "common/err.h"
#include "injector/ptrace/tracer.h"
#include "injector/session/session.h"

enum {
	MAX_THREADS = 64,
	FEW = 8,               /* blocks that a thread of pairs holds at a time */
	ROUND_EVENTS = 200000, /* 20 ms at ten million a second: the collector's usual wait */
	TICK_ROUNDS = 25,
	QUEUE = 4096 /* blocks on their way from one thread to another */
};
#define AGENT_MEMORY_BYTES (64u << 20)
#define COLLECTOR_MEMORY_BYTES (256u << 20)

/* RANDOM: any size of any stack, and any block is freed next. */
enum shape { PAIRS, MIX, CROSS, RANDOM };
static const struct scene {
	const char *name;
	enum shape shape;
	unsigned threads;
	uint32_t live, stacks;
} scenes[] = {
	{"pairs", PAIRS, 1, FEW, 100},       {"pairs", PAIRS, 2, FEW, 100},
	{"pairs", PAIRS, 4, FEW, 100},       {"pairs", PAIRS, 64, FEW, 100},
	{"mix", MIX, 1, 100000, 100},        {"mix", MIX, 4, 100000, 1000},
	{"mix", MIX, 4, 1000000, 100000},    {"mix", MIX, 64, 1000000, 10000},
	{"cross", CROSS, 2, QUEUE / 2, 100}, {"cross", CROSS, 4, QUEUE / 2, 1000},
	{"random", RANDOM, 1, 1000, 1000},   {"random", RANDOM, 4, 20000, 1000},
};

/* ------------------------------------------------------------------ stages */

enum stage { OTHER, READ, ACCOUNTING, ENCODE, COMPRESS, WRITE, STAGES };
static const char *const stage_names[STAGES] = {"other",  "read",     "accounting",
						"encode", "compress", "write"};

struct result {
	char scene[64];
	uint64_t events, trace_bytes, peak_bytes;
	double wall_s, total_ns, finish_ms;
	double stage_ns[STAGES];
};

/* Of each thread that collects; added to the sums when a stage of it ends. */
static __thread enum stage stage_now = OTHER;
static __thread uint64_t stage_since;
static uint64_t stage_sums[STAGES];

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static enum stage enter(enum stage stage)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	enum stage before = stage_now;

	if (before != OTHER)
		__atomic_fetch_add(&stage_sums[before], now - stage_since, __ATOMIC_RELAXED);
	stage_since = now;
	stage_now = stage;
	return before;
}

#define WRAP(which, type, name, parameters, arguments) \
	type __real_##name parameters;                 \
	type __wrap_##name parameters;                 \
	type __wrap_##name parameters                  \
	{                                              \
		enum stage before = enter(which);      \
		type answer = __real_##name arguments; \
                                                       \
		enter(before);                         \
		return answer;                         \
	}

WRAP(ACCOUNTING, int, limpet_recorder_add_events,
     (struct limpet_recorder * recorder, struct limpet_record *records, size_t count),
     (recorder, records, count))
WRAP(ENCODE, uint16_t, limpet_event_block_append,
     (const struct limpet_event_block *block, struct limpet_event_planes *planes,
      struct limpet_bytes *content),
     (block, planes, content))
WRAP(COMPRESS, int, limpet_trace_writer_append,
     (struct limpet_trace_writer * writer, struct limpet_trace_mark *mark,
      struct limpet_bytes *content),
     (writer, mark, content))
WRAP(WRITE, int, limpet_trace_writer_flush, (struct limpet_trace_writer * writer), (writer))

/* ------------------------------------------------------------------ made-up threads */

struct block {
	uint64_t address;
	uint32_t size;
};

struct producer {
	uint32_t chunk, offset;
	uint64_t sequence;
	struct block *blocks; /* those it holds; of CROSS a ring */
	uint32_t count, first, room;
};

static struct {
	pid_t child;
	char path[64];
	const char *keep;
	struct limpet_tracer *tracer;
	struct limpet_target target;
	struct limpet_session *session;
	struct limpet_shm *shm;
	struct limpet_recorder *recorder;
	struct limpet_collector *collector;
	struct producer producers[MAX_THREADS];
	const struct scene *scene;
	uint64_t random, next_address;
	uint32_t numbers[LIMPET_ORDER_COUNTERS];
	uint64_t *free_list;
	size_t free_count, free_room;
	uint64_t produced, lost;
} it;

static void must(int64_t code)
{
	if (code >= 0)
		return;
	fprintf(stderr, "bench_collector: %s\n", strerror((int)-code));
	exit(1);
}

static uint64_t random_word(void)
{
	it.random ^= it.random << 13;
	it.random ^= it.random >> 7;
	it.random ^= it.random << 17;
	return it.random * 0x2545f4914f6cdd1dull;
}

static uint32_t random_below(uint32_t limit)
{
	return (uint32_t)((random_word() >> 32) * limit >> 32);
}

static void *at_offset(uint64_t offset)
{
	return (uint8_t *)it.shm + offset;
}

static struct limpet_chunk *chunk_at(uint32_t index)
{
	return at_offset(it.shm->layout.chunks_offset + (uint64_t)(index - 1) * LIMPET_CHUNK_BYTES);
}

static struct limpet_thread *thread_at(uint32_t index)
{
	return (struct limpet_thread *)at_offset(it.shm->layout.threads_offset) + index;
}

static uint32_t take_chunk(void)
{
	uint64_t *map = at_offset(it.shm->layout.free_chunks_offset);

	for (uint32_t i = 0; i < it.shm->layout.chunk_count / 64; i++) {
		if (!map[i])
			continue;
		uint32_t bit = (uint32_t)__builtin_ctzll(map[i]);

		map[i] &= ~(1ull << bit);
		return i * 64 + bit + 1;
	}
	return LIMPET_CHUNK_NONE;
}

static bool next_chunk(uint32_t thread)
{
	struct producer *producer = &it.producers[thread];
	uint32_t index = take_chunk();
	struct limpet_chunk *chunk;

	if (!index)
		return false;
	chunk = chunk_at(index);
	memset(chunk, 0, sizeof(*chunk));
	chunk->thread = thread;
	chunk->tid = (uint32_t)it.child + thread;
	chunk->generation = thread_at(thread)->generation;
	chunk->sequence = producer->chunk ? ++producer->sequence : 0;
	if (producer->chunk)
		chunk_at(producer->chunk)->next = index;
	else
		thread_at(thread)->first_chunk = index;
	producer->chunk = index;
	producer->offset = 0;
	return true;
}

static void put(uint32_t thread, uint32_t kind, uint64_t address, uint32_t size, uint32_t node)
{
	struct producer *producer = &it.producers[thread];
	struct limpet_chunk *chunk;
	uint64_t *words;

	if ((!producer->chunk || producer->offset + 24 > LIMPET_CHUNK_DATA_BYTES) &&
	    !next_chunk(thread)) {
		it.lost++;
		return;
	}
	chunk = chunk_at(producer->chunk);
	words = (uint64_t *)(void *)((uint8_t *)(chunk + 1) + producer->offset);
	words[0] = (uint64_t)it.numbers[limpet_order_counter(kind, address)]++ << 32 |
		   (it.shm->time & LIMPET_TIME_MASK) << 8 | kind;
	words[1] = LIMPET_HIDDEN(address);
	words[2] = size | (uint64_t)node << 32;
	producer->offset += 24;
	chunk->committed = producer->offset;
	it.produced++;
}

static void put_stack(uint32_t thread, uint32_t number, const uint64_t *frames, uint32_t count)
{
	struct producer *producer = &it.producers[thread];
	struct limpet_chunk *chunk;
	uint64_t *words;

	if ((!producer->chunk ||
	     producer->offset + limpet_stack_bytes(count) > LIMPET_CHUNK_DATA_BYTES) &&
	    !next_chunk(thread)) {
		fprintf(stderr, "bench_collector: no room for stacks\n");
		exit(1);
	}
	chunk = chunk_at(producer->chunk);
	words = (uint64_t *)(void *)((uint8_t *)(chunk + 1) + producer->offset);
	words[0] = (uint64_t)number << 32 | count << 8 | LIMPET_EVENT_STACK;
	words[1] = 0;
	memcpy(words + LIMPET_STACK_HEAD_WORDS, frames, count * sizeof(*frames));
	producer->offset += limpet_stack_bytes(count);
	chunk->describes = 1;
	chunk->committed = producer->offset;
}

static void drain(bool all)
{
	enum stage before = enter(READ);
	int64_t recorded;

	do {
		recorded = all ? limpet_collector_drain_all(it.collector)
			       : limpet_collector_drain(it.collector);
		must(recorded);
	} while (recorded > 0 || limpet_collector_has_more(it.collector));
	enter(before);
}

/* A binary tree's leaves: as deep as the logarithm. Before what is measured. */
static void describe_stacks(void)
{
	for (uint32_t i = it.scene->stacks; i < 2 * it.scene->stacks; i++) {
		uint64_t frames[32];
		uint32_t count = 0;

		for (uint32_t level = 31; level < 32; level--)
			if (i >> level)
				frames[count++] = 0x400000 + (uint64_t)(i >> level) * 16;
		put_stack(0, i, frames, count);
		if (i % 10000 == 0)
			drain(false);
	}
	drain(false);
}

/* As allocators do: what was freed last is handed out first. */
static uint64_t take_address(void)
{
	if (it.free_count)
		return it.free_list[--it.free_count];
	it.next_address += 48;
	return it.next_address;
}

static void give_address(uint64_t address)
{
	it.free_list[it.free_count++] = address;
}

static struct block allocate(uint32_t thread)
{
	uint32_t stacks = it.scene->stacks, few = stacks < 20 ? stacks : stacks / 20;
	/* Most calls come from few of the stacks. */
	uint32_t site = random_below(4) ? random_below(few) : random_below(stacks);
	struct block block = {.address = take_address(),
			      .size = random_below(64) ? 16 + site % 60 * 8 + random_below(3) * 8
						       : 1 + random_below(100000)};

	if (it.scene->shape == RANDOM) {
		site = random_below(stacks);
		block.size = 1 + random_below(1024);
	}
	put(thread, LIMPET_EVENT_ALLOC, block.address, block.size, stacks + site);
	return block;
}

static void release(uint32_t thread, struct block block)
{
	put(thread, LIMPET_EVENT_FREE, block.address, block.size, 0);
	give_address(block.address);
}

static void one_event(uint32_t thread)
{
	struct producer *producer = &it.producers[thread];

	if (it.scene->shape == CROSS) {
		struct producer *giver =
			&it.producers[(thread + it.scene->threads - 1) % it.scene->threads];
		bool take = random_below(QUEUE) < giver->count;

		if (take || producer->count == QUEUE) {
			if (!giver->count)
				return;
			release(thread, giver->blocks[giver->first++ % QUEUE]);
			giver->count--;
		} else {
			producer->blocks[(producer->first + producer->count++) % QUEUE] =
				allocate(thread);
		}
	} else {
		/* As likely to rise as to fall at the room's end, and full on average. */
		bool rise = producer->count < producer->room - producer->room / 4 ||
			    random_word() >> 63;
		bool any = it.scene->shape == RANDOM ||
			   (it.scene->shape == MIX && random_word() >> 63);

		if (rise && producer->count < producer->room) {
			producer->blocks[producer->count++] = allocate(thread);
		} else if (producer->count) {
			uint32_t at = producer->count - 1;
			struct block block;

			/* Half of the frees are of what is young. */
			if (any)
				at = random_below(producer->count);
			else if (producer->count > FEW)
				at -= random_below(FEW);
			block = producer->blocks[at];
			producer->blocks[at] = producer->blocks[--producer->count];
			release(thread, block);
		}
	}
}

static void produce(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		one_event(it.scene->threads == 1 ? 0 : random_below(it.scene->threads));
}

/* ------------------------------------------------------------------ a capture */

static pid_t start_sleeper(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		pause();
	_exit(0);
}

static void open_capture(void)
{
	const struct limpet_capture_config options = {.agent_memory_bytes = AGENT_MEMORY_BYTES,
						      .attach_timeout_ns = 1000000000};
	struct limpet_recorder_options record = {.path = it.keep ? it.keep : it.path,
						 .owner_uid = getuid(),
						 .owner_gid = getgid(),
						 .memory_bytes = COLLECTOR_MEMORY_BYTES,
						 .pid = it.child,
						 .comm = "bench",
						 .command = "bench",
						 .executable = "/bench",
						 .max_depth = 256,
						 .unseen_rss_share = -1,
						 .allocators = "none"};
	struct limpet_err err = {0};

	if (limpet_target_open(it.child, &it.target, &err) < 0 ||
	    limpet_tracer_new(&it.tracer) < 0 ||
	    limpet_session_prepare(it.tracer, &it.target, &options, NULL, &it.session, &err) < 0 ||
	    limpet_recorder_open(&record, &it.recorder, &err) < 0) {
		fprintf(stderr, "bench_collector: %s\n", err.message);
		exit(1);
	}
	it.shm = limpet_session_segment(it.session)->shm;
	while (limpet_segment_populate_chunks(limpet_session_segment(it.session)))
		;
	it.shm->max_depth = 256;
	if (limpet_collector_new(it.session, it.recorder, &it.collector) < 0)
		exit(1);
	for (uint32_t i = 0; i < it.scene->threads; i++) {
		struct producer *producer = &it.producers[i];
		struct limpet_thread *thread = thread_at(i);

		producer->room = it.scene->shape == CROSS   ? QUEUE
				 : it.scene->shape == PAIRS ? FEW
							    : it.scene->live / it.scene->threads;
		producer->blocks = calloc(producer->room, sizeof(*producer->blocks));
		thread->tid = (uint32_t)it.child + i;
		thread->generation = 1;
		it.shm->states_used[i / 64] |= 1ull << i % 64;
		thread->thread_pointer = 0x7f0000001000ull + i * 4096ull;
		thread->stack_high = 1; /* known */
		it.free_room += producer->room;
	}
	it.free_list = calloc(it.free_room + 1, sizeof(*it.free_list));
	limpet_collector_begin(it.collector);
	describe_stacks();
}

static uint64_t peak_bytes(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss * 1024;
}

static void run(uint64_t events, struct result *result)
{
	struct limpet_recorder_tick tick;
	struct limpet_recorder_end end = {.end = LIMPET_END_STOP};
	struct limpet_recorder_stats stats;
	uint64_t cpu, wall, made = 0, memory;

	open_capture();
	memory = peak_bytes();
	wall = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (unsigned round = 1; it.produced < events; round++) {
		uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		produce(ROUND_EVENTS);
		made += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
		drain(false);
		if (round % TICK_ROUNDS == 0) {
			limpet_collector_fill_tick(it.collector, &tick);
			must(limpet_recorder_tick(it.recorder, &tick));
		}
	}
	drain(true);
	limpet_collector_fill_tick(it.collector, &tick);
	must(limpet_recorder_tick(it.recorder, &tick));
	result->total_ns = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu - made);
	result->wall_s = (double)(clock_ns(CLOCK_MONOTONIC) - wall) / 1e9;
	result->peak_bytes = peak_bytes() - memory;
	for (unsigned i = 0; i < STAGES; i++)
		result->stage_ns[i] = (double)stage_sums[i];
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	end.time_ns = tick.time_ns;
	must(limpet_recorder_finish(it.recorder, &tick, &end));
	result->finish_ms = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e6;
	limpet_recorder_stats_read(it.recorder, &stats);
	if (stats.events != it.produced || it.lost || stats.foreign_frees ||
	    stats.unmatched_table_full || tick.dropped_events) {
		fprintf(stderr, "bench_collector: %lu events of %lu came through, %lu unmatched\n",
			(unsigned long)stats.events, (unsigned long)it.produced,
			(unsigned long)stats.foreign_frees);
		exit(1);
	}
	result->events = stats.events;
	result->trace_bytes = stats.file_bytes;
	result->stage_ns[OTHER] = result->total_ns;
	result->total_ns /= (double)stats.events;
	for (unsigned i = 1; i < STAGES; i++) {
		result->stage_ns[OTHER] -= result->stage_ns[i];
		result->stage_ns[i] /= (double)stats.events;
	}
	result->stage_ns[OTHER] /= (double)stats.events;
}

static void end_child(void)
{
	kill(it.child, SIGKILL);
	unlink(it.path);
}

/* In a process of its own: its peak of memory is that of this scene alone. */
static bool run_apart(const struct scene *scene, uint64_t events, struct result *result)
{
	int fds[2], status;
	pid_t pid;

	if (pipe(fds) < 0 || (pid = fork()) < 0)
		return false;
	if (pid == 0) {
		it.scene = scene;
		it.random = 88172645463325252ull;
		it.next_address = 0x7f0000000000ull;
		it.child = start_sleeper();
		snprintf(it.path, sizeof(it.path), "/dev/shm/limpet-bench.%d", getpid());
		atexit(end_child);
		run(events, result);
		exit(write(fds[1], result, sizeof(*result)) != sizeof(*result));
	}
	close(fds[1]);
	bool whole = read(fds[0], result, sizeof(*result)) == sizeof(*result);

	close(fds[0]);
	waitpid(pid, &status, 0);
	return whole && status == 0;
}

/* ------------------------------------------------------------------ words */

static void name_scene(const struct scene *scene, struct result *ret)
{
	snprintf(ret->scene, sizeof(ret->scene), "%s-%u-%u", scene->name, scene->threads,
		 scene->live);
}

/* One scene by its name, or all whose names begin so. */
static bool is_chosen(const char *name, const char *only)
{
	struct result result;

	for (size_t i = 0; only && i < LIMPET_COUNT_OF(scenes); i++) {
		name_scene(&scenes[i], &result);
		if (!strcmp(result.scene, only))
			return !strcmp(name, only);
	}
	return !only || !strncmp(name, only, strlen(only));
}

static void print(const struct result *result)
{
	printf("%-18s %8.2f %8.1f", result->scene, 1e3 / result->total_ns, result->total_ns);
	for (unsigned i = 0; i < STAGES; i++)
		printf(" %8.1f", result->stage_ns[i]);
	printf(" %8.2f %8.1f %8.1f\n", (double)result->trace_bytes / (double)result->events,
	       (double)result->peak_bytes / (1 << 20), result->finish_ms);
	fflush(stdout);
}

static void print_json(FILE *file, const struct result *results, size_t count)
{
	fprintf(file, "{\"benchmark\":\"collector\",\"scenes\":[");
	for (size_t i = 0; i < count; i++) {
		const struct result *result = &results[i];

		fprintf(file,
			"%s\n{\"scene\":\"%s\",\"events\":%lu,\"million_events_per_cpu_second\":"
			"%.3f,\"ns_per_event\":{\"all\":%.2f",
			i ? "," : "", result->scene, (unsigned long)result->events,
			1e3 / result->total_ns, result->total_ns);
		for (unsigned stage = 0; stage < STAGES; stage++)
			fprintf(file, ",\"%s\":%.2f", stage_names[stage], result->stage_ns[stage]);
		fprintf(file,
			"},\"wall_seconds\":%.3f,\"trace_bytes_per_event\":%.3f,"
			"\"peak_memory_bytes\":%lu,\"finish_ms\":%.1f}",
			result->wall_s, (double)result->trace_bytes / (double)result->events,
			(unsigned long)result->peak_bytes, result->finish_ms);
	}
	fprintf(file, "\n]}\n");
}

static int usage(void)
{
	fprintf(stderr, "usage: bench_collector [-e EVENTS] [-c CASE] [-j JSON-FILE] [-o TRACE]\n");
	return 2;
}

int main(int count, char **arguments)
{
	static struct result results[LIMPET_COUNT_OF(scenes)];
	uint64_t events = 8000000;
	const char *only = NULL, *json = NULL;
	size_t done = 0;
	int option;

	while ((option = getopt(count, arguments, "e:c:j:o:")) >= 0) {
		if (option == 'e')
			events = strtoull(optarg, NULL, 10);
		else if (option == 'c')
			only = optarg;
		else if (option == 'j')
			json = optarg;
		else if (option == 'o')
			it.keep = optarg;
		else
			return usage();
	}
	if (!events || optind < count)
		return usage();
	printf("%-18s %8s %8s", "scene-threads-live", "M/cpu-s", "ns/event");
	for (unsigned i = 0; i < STAGES; i++)
		printf(" %8s", stage_names[i]);
	printf(" %8s %8s %8s\n", "bytes", "peak MiB", "end ms");
	fflush(stdout);
	for (size_t i = 0; i < LIMPET_COUNT_OF(scenes); i++) {
		struct result *result = &results[done];

		name_scene(&scenes[i], result);
		if (!is_chosen(result->scene, only))
			continue;
		if (!run_apart(&scenes[i], events, result)) {
			fprintf(stderr, "bench_collector: %s failed\n", result->scene);
			return 1;
		}
		print(result);
		done++;
	}
	if (json) {
		FILE *file = fopen(json, "w");

		if (!file) {
			fprintf(stderr, "bench_collector: %s: %s\n", json, strerror(errno));
			return 1;
		}
		print_json(file, results, done);
		fclose(file);
	}
	return 0;
}
