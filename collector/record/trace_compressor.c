#include "collector/record/trace_compressor.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "collector/record/event_columns.h"
#include "collector/record/event_planes.h"
#include "common/trace_block.h"

#define JOBS 8u
/* How much of its memory a job keeps for the next one in its place. */
#define KEEP_BYTES (1u << 20)
/* A period with this many rows shows that there is load. */
#define LOAD_ROWS 16384u

enum kind { EVENTS, BLOCK, GAP, REPLACE, FLUSH };

struct job {
	enum kind kind;
	struct limpet_trace_mark mark;
	struct limpet_bytes content;
};

struct limpet_trace_compressor {
	struct limpet_trace_writer *writer;
	uint32_t sequence; /* of the next block */
	uint32_t rows;     /* of the next EVENTS block */

	/* Used by the caller, who fills them while the rows are in its processor's cache: that
	 * takes less than half of what it costs to hand rows over to another processor. */
	struct limpet_event_columns *columns;
	bool rows_lost;

	/* used by the thread that does the jobs */
	struct limpet_event_planes *planes;
	struct limpet_bytes events;

	/* The caller owns the job at `put` until it is counted; the thread that does the jobs owns
	 * those from `done` on. Of the jobs that are not done, one at most is of kind EVENTS: it
	 * has the block, which is the caller's otherwise. */
	struct limpet_event_block block;
	bool block_lost; /* it has missing rows */
	struct job jobs[JOBS];
	uint64_t put, done;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool threaded, alone, ending;
};

struct limpet_trace_compressor *limpet_trace_compressor_new(struct limpet_trace_writer *writer)
{
	struct limpet_trace_compressor *compressor = calloc(1, sizeof(*compressor));
	cpu_set_t processors;

	if (!compressor)
		return NULL;
	compressor->writer = writer;
	compressor->columns = limpet_event_columns_new();
	compressor->planes = limpet_event_planes_new();
	if (!compressor->columns || !compressor->planes) {
		limpet_event_columns_free(compressor->columns);
		limpet_event_planes_free(compressor->planes);
		free(compressor);
		return NULL;
	}
	compressor->alone = sched_getaffinity(0, sizeof(processors), &processors) == 0 &&
			    CPU_COUNT(&processors) == 1;
	pthread_mutex_init(&compressor->lock, NULL);
	pthread_cond_init(&compressor->wake, NULL);
	return compressor;
}

/* ------------------------------------------------------------------ doing jobs */

static void append_events(struct limpet_trace_compressor *compressor,
			  struct limpet_trace_mark *mark)
{
	limpet_trace_content_begin(&compressor->events);
	/* A block with missing rows is not written. */
	compressor->events.failed |= compressor->block_lost;
	if (!compressor->block_lost)
		limpet_event_block_append(&compressor->block, compressor->planes,
					  &compressor->events);
	limpet_trace_writer_append(compressor->writer, mark, &compressor->events);
}

static void do_job(struct limpet_trace_compressor *compressor, struct job *job)
{
	switch (job->kind) {
	case EVENTS:
		append_events(compressor, &job->mark);
		break;
	case BLOCK:
		limpet_trace_writer_append(compressor->writer, &job->mark, &job->content);
		if (job->content.room > KEEP_BYTES)
			limpet_bytes_done(&job->content);
		break;
	case REPLACE:
		limpet_trace_writer_replace(compressor->writer);
		__attribute__((fallthrough));
	case GAP:
		limpet_trace_writer_append_gap(compressor->writer, job->mark.sequence,
					       job->mark.content_bytes);
		break;
	case FLUSH:
		limpet_trace_writer_flush(compressor->writer);
		break;
	}
}

/* The thread begins under load, in which the collector waits for it: it must not inherit the policy
 * of a collector that had little to do, with which it would run only when a tick comes. */
static void schedule(void)
{
	static const struct sched_param none;

	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_BATCH)
		sched_setscheduler(0, SCHED_OTHER, &none);
}

static void *work(void *data)
{
	struct limpet_trace_compressor *compressor = data;

	prctl(PR_SET_NAME, "limpet-compress");
	schedule();
	pthread_mutex_lock(&compressor->lock);
	for (;;) {
		while (compressor->done == compressor->put && !compressor->ending)
			pthread_cond_wait(&compressor->wake, &compressor->lock);
		if (compressor->done == compressor->put)
			break;
		pthread_mutex_unlock(&compressor->lock);
		do_job(compressor, &compressor->jobs[compressor->done % JOBS]);
		pthread_mutex_lock(&compressor->lock);
		compressor->done++;
		pthread_cond_broadcast(&compressor->wake);
	}
	pthread_mutex_unlock(&compressor->lock);
	return NULL;
}

/* The thread blocks all signals; other threads handle them. If it cannot be created, the caller
 * continues to do the jobs. */
static void start_thread(struct limpet_trace_compressor *compressor)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	compressor->threaded = pthread_create(&compressor->thread, NULL, work, compressor) == 0;
	compressor->alone = !compressor->threaded;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ------------------------------------------------------------------ giving them */

/* Waits until fewer jobs than that are left to do. */
static void wait_until_fewer(struct limpet_trace_compressor *compressor, uint64_t jobs)
{
	if (!compressor->threaded)
		return;
	pthread_mutex_lock(&compressor->lock);
	while (compressor->put - compressor->done >= jobs)
		pthread_cond_wait(&compressor->wake, &compressor->lock);
	pthread_mutex_unlock(&compressor->lock);
}

/* The job to fill in. */
static struct job *next_job(struct limpet_trace_compressor *compressor, enum kind kind)
{
	struct job *job = &compressor->jobs[compressor->put % JOBS];

	wait_until_fewer(compressor, JOBS);
	job->kind = kind;
	return job;
}

static void give(struct limpet_trace_compressor *compressor, struct job *job)
{
	if (compressor->threaded) {
		pthread_mutex_lock(&compressor->lock);
		compressor->put++;
		pthread_cond_broadcast(&compressor->wake);
		pthread_mutex_unlock(&compressor->lock);
	} else {
		compressor->put++;
		do_job(compressor, job);
		compressor->done++;
	}
}

void limpet_trace_compressor_append_rows(struct limpet_trace_compressor *compressor,
					 const struct limpet_accounting_rows *rows)
{
	if (limpet_event_columns_add(compressor->columns, rows->list, rows->count) < 0)
		compressor->rows_lost = true;
	compressor->rows += (uint32_t)rows->trace_rows;
}

uint32_t limpet_trace_compressor_rows(const struct limpet_trace_compressor *compressor)
{
	return compressor->rows;
}

static struct limpet_trace_mark next_mark(struct limpet_trace_compressor *compressor,
					  enum limpet_trace_block_type type, uint64_t first_ns,
					  uint64_t last_ns)
{
	return (struct limpet_trace_mark){.type = type,
					  .sequence = compressor->sequence++,
					  .first_ns = first_ns,
					  .last_ns = last_ns};
}

uint32_t limpet_trace_compressor_append_events(struct limpet_trace_compressor *compressor,
					       uint64_t first_ns, uint64_t last_ns)
{
	uint32_t sequence = compressor->sequence;
	struct job *job;

	if (compressor->rows >= LOAD_ROWS && !compressor->threaded && !compressor->alone)
		start_thread(compressor);
	/* The block before is done, and what followed it is in the file: the recorder decides by
	 * the file's size. */
	wait_until_fewer(compressor, 1);
	job = next_job(compressor, EVENTS);
	limpet_event_columns_swap(compressor->columns, &compressor->block);
	compressor->block_lost = compressor->rows_lost;
	compressor->rows_lost = false;
	compressor->rows = 0;
	job->mark = next_mark(compressor, LIMPET_TRACE_EVENTS, first_ns, last_ns);
	give(compressor, job);
	return sequence;
}

uint32_t limpet_trace_compressor_drop_rows(struct limpet_trace_compressor *compressor)
{
	const uint32_t rows = compressor->rows;

	wait_until_fewer(compressor, 1);
	limpet_event_columns_swap(compressor->columns, &compressor->block);
	compressor->rows = 0;
	compressor->rows_lost = false;
	return rows;
}

uint32_t limpet_trace_compressor_append_gap(struct limpet_trace_compressor *compressor)
{
	const uint32_t sequence = compressor->sequence++;
	struct job *job = next_job(compressor, GAP);

	job->mark = (struct limpet_trace_mark){.sequence = sequence, .content_bytes = 1};
	give(compressor, job);
	return sequence;
}

struct limpet_bytes *limpet_trace_compressor_content(struct limpet_trace_compressor *compressor)
{
	struct job *job = next_job(compressor, BLOCK);

	limpet_trace_content_begin(&job->content);
	return &job->content;
}

void limpet_trace_compressor_append(struct limpet_trace_compressor *compressor,
				    enum limpet_trace_block_type type, uint64_t first_ns,
				    uint64_t last_ns)
{
	struct job *job = next_job(compressor, BLOCK);

	job->mark = next_mark(compressor, type, first_ns, last_ns);
	give(compressor, job);
}

void limpet_trace_compressor_keep_addresses(struct limpet_trace_compressor *compressor)
{
	limpet_event_columns_keep_addresses(compressor->columns);
}

uint32_t limpet_trace_compressor_sequence(const struct limpet_trace_compressor *compressor)
{
	return compressor->sequence;
}

void limpet_trace_compressor_replace(struct limpet_trace_compressor *compressor, uint32_t sequence)
{
	struct job *job = next_job(compressor, REPLACE);

	job->mark = (struct limpet_trace_mark){.sequence = sequence,
					       .content_bytes = compressor->sequence - sequence};
	give(compressor, job);
}

void limpet_trace_compressor_flush(struct limpet_trace_compressor *compressor)
{
	give(compressor, next_job(compressor, FLUSH));
}

int limpet_trace_compressor_wait(struct limpet_trace_compressor *compressor)
{
	wait_until_fewer(compressor, 1);
	return limpet_trace_writer_error(compressor->writer);
}

void limpet_trace_compressor_free(struct limpet_trace_compressor *compressor)
{
	if (!compressor)
		return;
	if (compressor->threaded) {
		pthread_mutex_lock(&compressor->lock);
		compressor->ending = true;
		pthread_cond_broadcast(&compressor->wake);
		pthread_mutex_unlock(&compressor->lock);
		pthread_join(compressor->thread, NULL);
	}
	for (unsigned i = 0; i < JOBS; i++)
		limpet_bytes_done(&compressor->jobs[i].content);
	limpet_bytes_done(&compressor->events);
	limpet_event_block_done(&compressor->block);
	limpet_event_planes_free(compressor->planes);
	limpet_event_columns_free(compressor->columns);
	pthread_cond_destroy(&compressor->wake);
	pthread_mutex_destroy(&compressor->lock);
	free(compressor);
}
