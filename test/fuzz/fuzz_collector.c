/* The shared memory, written by a hostile target, as the collector reads it; then the trace that
 * comes of it has to be one that can be read.
 *
 * The input is a list of steps: a kind (1 byte), an argument (1 byte), and what the kind asks for.
 * Some steps have a thread of ours write over everything at the same time, so that what was checked
 * is another when it is used. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"
#include "collector/record/recorder.h"
#include "collector/stream/collector.h"
#include "common/err.h"
#include "injector/ptrace/tracer.h"
#include "injector/session/session.h"

#define MEMORY_BYTES (8u << 20)
#define MAX_STEPS 64u
#define SCRIBBLES 20000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In `make test`: a second's worth. */
extern unsigned long fuzz_mutations;
unsigned long fuzz_mutations = 100;

static struct {
	pid_t child;
	struct limpet_tracer *tracer;
	struct limpet_target target;
	struct limpet_session *session;
	struct limpet_shm *shm, clean;
	struct limpet_recorder *recorder;
	struct limpet_collector *collector;
	uint32_t numbers[LIMPET_ORDER_COUNTERS];
	char path[64];
} it;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	uint64_t random, wanted, done;
} scribbler = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};

static void end_child(void)
{
	kill(it.child, SIGKILL);
	unlink(it.path);
}

/* Somebody to be the target: it only has to be there. */
static pid_t start_child(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		abort();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		pause();
	_exit(0);
}

/* ------------------------------------------------------------------ writing at the same time */

static uint64_t random_word(void)
{
	scribbler.random ^= scribbler.random << 13;
	scribbler.random ^= scribbler.random >> 7;
	scribbler.random ^= scribbler.random << 17;
	return scribbler.random * 0x2545f4914f6cdd1dull;
}

static struct limpet_thread *thread_at(uint64_t index)
{
	return (struct limpet_thread *)(void *)((uint8_t *)it.shm +
						it.clean.layout.threads_offset) +
	       index % it.clean.layout.thread_count;
}

static struct limpet_chunk *chunk_at(uint64_t index)
{
	return (struct limpet_chunk *)(void *)((uint8_t *)it.shm + it.clean.layout.chunks_offset +
					       index % it.clean.layout.chunk_count *
						       LIMPET_CHUNK_BYTES);
}

/* A description of few frames, with fields that are mostly possible. Returns its words. */
static uint32_t put_description(uint64_t *words, uint64_t word)
{
	const uint32_t count = word & 3, flags = word >> 2 & 7;

	words[0] = (word >> 8 & 31) << 32 | count << 8 | LIMPET_EVENT_STACK;
	words[1] = (uint64_t)(flags & 4 ? flags : flags & 1) << 32 | (word >> 16 & 3);
	for (uint32_t i = 0; i < 3; i++)
		words[2 + i] = word >> (20 + i * 4) & 15;
	return limpet_stack_bytes(count) / 8;
}

/* Heads that are right one moment and wrong the next. */
static void scribble(void)
{
	uint64_t word = random_word(), few = word >> 8 & 3;
	struct limpet_chunk *chunk = chunk_at(word >> 10 & 7);
	struct limpet_thread *thread = thread_at(few);

	switch (word & 15) {
	case 0:
		chunk->thread = (uint32_t)few;
		break;
	case 1:
	case 2:
		chunk->sequence = word >> 20 & 31;
		break;
	case 3:
	case 4:
		chunk->next = (uint32_t)(word >> 20 & 15);
		break;
	case 5:
		chunk->committed = (uint32_t)(word >> 32);
		break;
	case 6:
		chunk->committed = LIMPET_CHUNK_BYTES - sizeof(*chunk);
		break;
	case 7:
		thread->first_chunk = (uint32_t)(word >> 20 & 15);
		break;
	case 8:
		thread->thread_pointer = word >> 40 & 7 ? word >> 16 : word >> 20 & 1;
		break;
	case 9:
		thread->intent = word >> 30 & 1 ? (uint32_t)(word >> 12) : 0;
		break;
	case 10:
		thread->generation = (uint32_t)(word >> 20 & 3);
		break;
	case 11:
		put_description((uint64_t *)(void *)(chunk + 1) + (word >> 40 & 63), word >> 8);
		chunk->describes = word >> 60 & 1;
		break;
	case 12:
		((uint64_t *)(void *)(chunk + 1))[word >> 20 & 4000] = random_word();
		break;
	case 13:
		((uint64_t *)(void *)it.shm)[(word >> 20) % (sizeof(*it.shm) / 8)] = random_word();
		break;
	case 14:
		thread->entry_sp = word >> 16;
		thread->stack_high = 0;
		break;
	default:
		thread->tid = word >> 20 & 1 ? (uint32_t)it.child : (uint32_t)(word >> 32);
		break;
	}
}

static void *scribble_on(void *nothing)
{
	pthread_mutex_lock(&scribbler.lock);
	for (;;) {
		while (scribbler.done == scribbler.wanted)
			pthread_cond_wait(&scribbler.wake, &scribbler.lock);
		pthread_mutex_unlock(&scribbler.lock);
		for (unsigned i = 0; i < SCRIBBLES; i++)
			scribble();
		pthread_mutex_lock(&scribbler.lock);
		scribbler.done = scribbler.wanted;
		pthread_cond_broadcast(&scribbler.wake);
	}
	return nothing;
}

static void scribbler_start(uint64_t seed)
{
	pthread_mutex_lock(&scribbler.lock);
	scribbler.random = seed * 0x9e3779b97f4a7c15ull + 1;
	scribbler.wanted++;
	pthread_cond_broadcast(&scribbler.wake);
	pthread_mutex_unlock(&scribbler.lock);
}

static void scribbler_wait(void)
{
	pthread_mutex_lock(&scribbler.lock);
	while (scribbler.done != scribbler.wanted)
		pthread_cond_wait(&scribbler.wake, &scribbler.lock);
	pthread_mutex_unlock(&scribbler.lock);
}

/* ------------------------------------------------------------------ a capture */

static void begin(void)
{
	const struct limpet_capture_config options = {.agent_memory_bytes = MEMORY_BYTES,
						      .attach_timeout_ns = 1000000000};
	struct limpet_err err;
	pthread_t thread;

	it.child = start_child();
	snprintf(it.path, sizeof(it.path), "/dev/shm/limpet-fuzz.%d", getpid());
	atexit(end_child);
	if (limpet_target_open(it.child, &it.target, &err) < 0 ||
	    limpet_tracer_new(&it.tracer) < 0 ||
	    limpet_session_prepare(it.tracer, &it.target, &options, NULL, &it.session, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		abort();
	}
	it.shm = limpet_session_segment(it.session)->shm;
	it.clean = *it.shm;
	it.clean.max_depth = 256;
	if (pthread_create(&thread, NULL, scribble_on, NULL))
		abort();
}

static void open_capture(void)
{
	struct limpet_recorder_options record = {.path = it.path,
						 .owner_uid = getuid(),
						 .owner_gid = getgid(),
						 .memory_bytes = 4u << 20,
						 .pid = it.child,
						 .comm = "fuzz",
						 .command = "fuzz",
						 .executable = "/fuzz",
						 .max_depth = 256,
						 .unseen_rss_share = -1,
						 .allocators = "none"};
	struct limpet_err err;

	*it.shm = it.clean;
	memset(it.numbers, 0, sizeof(it.numbers));
	for (uint32_t i = 0; i < it.clean.layout.thread_count; i++)
		memset(thread_at(i), 0, sizeof(struct limpet_thread));
	for (uint32_t i = 0; i < it.clean.layout.chunk_count; i++)
		memset(chunk_at(i), 0, sizeof(struct limpet_chunk));
	unlink(it.path);
	if (limpet_recorder_open(&record, &it.recorder, &err) < 0 ||
	    limpet_collector_new(it.session, it.recorder, &it.collector) < 0)
		abort();
	limpet_collector_begin(it.collector);
}

static void check_trace(void)
{
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	struct limpet_err err;

	if (limpet_trace_reader_open(it.path, &reader, &err) < 0 ||
	    limpet_model_build(reader, NULL, &model, &err) < 0) {
		fprintf(stderr, "the trace cannot be read: %s\n", err.message);
		abort();
	}
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void close_capture(void)
{
	struct limpet_recorder_tick tick;
	struct limpet_recorder_end end = {.end = LIMPET_END_STOP};

	scribbler_wait();
	(void)limpet_collector_drain_all(it.collector);
	limpet_collector_fill_tick(it.collector, &tick);
	end.time_ns = tick.time_ns;
	if (limpet_recorder_finish(it.recorder, &tick, &end) < 0)
		abort();
	limpet_collector_free(it.collector);
	limpet_recorder_free(it.recorder);
	check_trace();
}

/* ------------------------------------------------------------------ steps */

struct steps {
	const uint8_t *at;
	size_t left;
};

static uint64_t take(struct steps *steps, size_t bytes)
{
	uint64_t value = 0;

	if (bytes > steps->left)
		bytes = steps->left;
	memcpy(&value, steps->at, bytes);
	steps->at += bytes;
	steps->left -= bytes;
	return value;
}

/* A chunk as the agent would open it, with records out of the input. */
static void put_chunk(struct steps *steps, uint8_t argument)
{
	struct limpet_chunk *chunk = chunk_at(argument & 15);
	uint64_t *words = (uint64_t *)(void *)(chunk + 1), *first = words;
	uint32_t count = (uint32_t)take(steps, 1) & 63;

	chunk->thread = argument >> 4 & 3;
	chunk->sequence = take(steps, 1);
	chunk->next = (uint32_t)take(steps, 1);
	chunk->tid = (uint32_t)it.child;
	chunk->describes = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t type = (uint32_t)take(steps, 1), counter;
		const uint64_t address = take(steps, 2) << 4 | take(steps, 1) << 56;

		words[1] = LIMPET_HIDDEN(address);
		words[2] = take(steps, 2) | take(steps, 1) << 32;
		if (type == LIMPET_EVENT_STACK) {
			words += put_description(words, address >> 4 ^ words[2]);
			chunk->describes = 1;
			continue;
		}
		counter = limpet_order_counter(LIMPET_EVENT_KIND(type), address);
		/* Mostly the next one; some are taken in vain. */
		words[0] = (uint64_t)it.numbers[counter]++ << 32 | type;
		it.numbers[counter] += type >> 4 == 15;
		words += 3;
	}
	chunk->committed = (uint32_t)(words - first) * 8;
}

static void claim(struct steps *steps, uint8_t argument)
{
	struct limpet_thread *thread = thread_at(argument & 3);

	thread->tid = argument & 4 ? (uint32_t)it.child : 1;
	thread->generation++;
	thread->first_chunk = (uint32_t)take(steps, 1);
	thread->intent = argument & 8 ? (uint32_t)take(steps, 4) : 0;
	thread->thread_pointer = 0x7f0000001000ull + (argument & 3) * 4096u;
}

static void put_word(struct steps *steps, uint8_t argument)
{
	uint64_t at = take(steps, 4) % (it.clean.bytes / 8), word = take(steps, 8);

	/* Near the front there is more to break. */
	if (argument & 1)
		at %= (it.clean.layout.threads_offset + 4 * sizeof(struct limpet_thread)) / 8;
	((uint64_t *)(void *)it.shm)[at] = word;
}

static void do_step(struct steps *steps, uint8_t kind, uint8_t argument)
{
	struct limpet_recorder_tick tick;
	char site[32];

	switch (kind % 10) {
	case 0:
		claim(steps, argument);
		break;
	case 1:
	case 2:
		put_chunk(steps, argument);
		break;
	case 3:
		put_word(steps, argument);
		break;
	case 4: /* room for so many stacks, or less */
		limpet_collector_set_stack_memory(it.collector, take(steps, 3));
		break;
	case 5:
		if (limpet_collector_drain(it.collector) < 0)
			abort();
		break;
	case 6:
		limpet_collector_housekeep(it.collector);
		break;
	case 7:
		limpet_collector_fill_tick(it.collector, &tick);
		if (limpet_recorder_tick(it.recorder, &tick) < 0)
			abort();
		limpet_collector_describe_site(it.collector, argument, site, sizeof(site));
		limpet_collector_needs_rescan(it.collector);
		break;
	case 8:
		if (limpet_collector_drain_all(it.collector) < 0)
			abort();
		break;
	default:
		scribbler_start(take(steps, 2));
		for (int i = 0; i < 4; i++)
			if (limpet_collector_drain(it.collector) < 0)
				abort();
		limpet_collector_housekeep(it.collector);
		scribbler_wait();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct steps steps = {data, size};

	if (!it.child)
		begin();
	open_capture();
	for (unsigned i = 0; i < MAX_STEPS && steps.left; i++) {
		uint8_t kind = (uint8_t)take(&steps, 1);

		do_step(&steps, kind, (uint8_t)take(&steps, 1));
	}
	close_capture();
	return 0;
}
