#include "injector/trace_press.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "common/trace_block.h"
#include "injector/event_columns.h"

#define JOBS 8u
/* What a job leaves of its memory for the next in its place. */
#define KEEP_BYTES (1u << 20)
/* A period with so many rows shows that there is load. */
#define LOAD_ROWS 16384u

enum kind { ROWS, EVENTS, BLOCK, REPLACE, FLUSH };

struct job {
	enum kind kind;
	struct limpet_trace_mark mark;
	struct limpet_ledger_rows rows;
	struct limpet_bytes content;
};

struct limpet_trace_press {
	struct limpet_trace_writer *writer;
	uint32_t sequence; /* of the next block */
	uint32_t rows;     /* of the next EVENTS block */
	uint16_t version;  /* 0: the plain one */

	/* of who does the jobs */
	struct limpet_event_columns *columns;
	struct limpet_bytes events;
	bool rows_lost;

	/* The job at `put` is its giver's until it is counted, those from `done` on its doer's. */
	struct job jobs[JOBS];
	uint64_t put, done;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool threaded, alone, ending;
};

struct limpet_trace_press *limpet_trace_press_new(struct limpet_trace_writer *writer)
{
	struct limpet_trace_press *press = calloc(1, sizeof(*press));
	cpu_set_t processors;

	if (!press)
		return NULL;
	press->writer = writer;
	press->columns = limpet_event_columns_new();
	if (!press->columns) {
		free(press);
		return NULL;
	}
	press->alone = sched_getaffinity(0, sizeof(processors), &processors) == 0 &&
		       CPU_COUNT(&processors) == 1;
	pthread_mutex_init(&press->lock, NULL);
	pthread_cond_init(&press->wake, NULL);
	return press;
}

/* ------------------------------------------------------------------ doing jobs */

static void put_events(struct limpet_trace_press *press, struct limpet_trace_mark *mark)
{
	limpet_trace_content_begin(&press->events);
	limpet_event_columns_put(press->columns, &press->events);
	limpet_event_columns_clear(press->columns);
	/* What cannot be told whole is not told. */
	press->events.failed |= press->rows_lost;
	press->rows_lost = false;
	limpet_trace_writer_put(press->writer, mark, &press->events);
}

static void do_job(struct limpet_trace_press *press, struct job *job)
{
	switch (job->kind) {
	case ROWS:
		if (limpet_event_columns_add(press->columns, job->rows.list, job->rows.count) < 0)
			press->rows_lost = true;
		job->rows.count = 0;
		if (job->rows.room * sizeof(*job->rows.list) > KEEP_BYTES) {
			free(job->rows.list);
			job->rows = (struct limpet_ledger_rows){0};
		}
		break;
	case EVENTS:
		put_events(press, &job->mark);
		break;
	case BLOCK:
		limpet_trace_writer_put(press->writer, &job->mark, &job->content);
		if (job->content.room > KEEP_BYTES)
			limpet_bytes_done(&job->content);
		break;
	case REPLACE:
		limpet_trace_writer_replace(press->writer);
		limpet_trace_writer_put_gap(press->writer, job->mark.sequence,
					    job->mark.content_bytes);
		break;
	case FLUSH:
		limpet_trace_writer_flush(press->writer);
		break;
	}
}

static void *work(void *data)
{
	struct limpet_trace_press *press = data;

	prctl(PR_SET_NAME, "limpet-press");
	pthread_mutex_lock(&press->lock);
	for (;;) {
		while (press->done == press->put && !press->ending)
			pthread_cond_wait(&press->wake, &press->lock);
		if (press->done == press->put)
			break;
		pthread_mutex_unlock(&press->lock);
		do_job(press, &press->jobs[press->done % JOBS]);
		pthread_mutex_lock(&press->lock);
		press->done++;
		pthread_cond_broadcast(&press->wake);
	}
	pthread_mutex_unlock(&press->lock);
	return NULL;
}

/* Signals are for those who wait for them. Without a thread it goes on as before. */
static void start_thread(struct limpet_trace_press *press)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	press->threaded = pthread_create(&press->thread, NULL, work, press) == 0;
	press->alone = !press->threaded;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ------------------------------------------------------------------ giving them */

/* The job to fill in. */
static struct job *next_job(struct limpet_trace_press *press, enum kind kind)
{
	struct job *job = &press->jobs[press->put % JOBS];

	if (press->threaded) {
		pthread_mutex_lock(&press->lock);
		while (press->put - press->done == JOBS)
			pthread_cond_wait(&press->wake, &press->lock);
		pthread_mutex_unlock(&press->lock);
	}
	job->kind = kind;
	return job;
}

static void give(struct limpet_trace_press *press, struct job *job)
{
	if (press->threaded) {
		pthread_mutex_lock(&press->lock);
		press->put++;
		pthread_cond_broadcast(&press->wake);
		pthread_mutex_unlock(&press->lock);
	} else {
		press->put++;
		do_job(press, job);
		press->done++;
	}
}

void limpet_trace_press_put_rows(struct limpet_trace_press *press, struct limpet_ledger_rows *rows)
{
	struct job *job;
	struct limpet_ledger_rows empty;

	if (!rows->count)
		return;
	press->rows += (uint32_t)rows->count;
	if (press->rows >= LOAD_ROWS && !press->threaded && !press->alone)
		start_thread(press);
	job = next_job(press, ROWS);
	empty = job->rows;
	job->rows = *rows;
	*rows = empty;
	give(press, job);
}

uint32_t limpet_trace_press_rows(const struct limpet_trace_press *press)
{
	return press->rows;
}

static struct limpet_trace_mark next_mark(struct limpet_trace_press *press,
					  enum limpet_trace_block_type type, uint64_t first_ns,
					  uint64_t last_ns)
{
	return (struct limpet_trace_mark){.version = press->version,
					  .type = type,
					  .sequence = press->sequence++,
					  .first_ns = first_ns,
					  .last_ns = last_ns};
}

uint32_t limpet_trace_press_put_events(struct limpet_trace_press *press, uint64_t first_ns,
				       uint64_t last_ns)
{
	struct job *job = next_job(press, EVENTS);
	uint32_t sequence = press->sequence;

	job->mark = next_mark(press, LIMPET_TRACE_EVENTS, first_ns, last_ns);
	press->rows = 0;
	give(press, job);
	return sequence;
}

struct limpet_bytes *limpet_trace_press_content(struct limpet_trace_press *press)
{
	struct job *job = next_job(press, BLOCK);

	limpet_trace_content_begin(&job->content);
	return &job->content;
}

void limpet_trace_press_put(struct limpet_trace_press *press, enum limpet_trace_block_type type,
			    uint64_t first_ns, uint64_t last_ns)
{
	struct job *job = next_job(press, BLOCK);

	job->mark = next_mark(press, type, first_ns, last_ns);
	give(press, job);
}

void limpet_trace_press_keep_addresses(struct limpet_trace_press *press)
{
	limpet_event_columns_keep_addresses(press->columns);
}

void limpet_trace_press_set_version(struct limpet_trace_press *press, uint16_t version)
{
	press->version = version;
}

uint32_t limpet_trace_press_sequence(const struct limpet_trace_press *press)
{
	return press->sequence;
}

void limpet_trace_press_replace(struct limpet_trace_press *press, uint32_t sequence)
{
	struct job *job = next_job(press, REPLACE);

	job->mark = (struct limpet_trace_mark){.sequence = sequence,
					       .content_bytes = press->sequence - sequence};
	give(press, job);
}

void limpet_trace_press_flush(struct limpet_trace_press *press)
{
	give(press, next_job(press, FLUSH));
}

int limpet_trace_press_wait(struct limpet_trace_press *press)
{
	if (press->threaded) {
		pthread_mutex_lock(&press->lock);
		while (press->done != press->put)
			pthread_cond_wait(&press->wake, &press->lock);
		pthread_mutex_unlock(&press->lock);
	}
	return limpet_trace_writer_error(press->writer);
}

void limpet_trace_press_free(struct limpet_trace_press *press)
{
	if (!press)
		return;
	if (press->threaded) {
		pthread_mutex_lock(&press->lock);
		press->ending = true;
		pthread_cond_broadcast(&press->wake);
		pthread_mutex_unlock(&press->lock);
		pthread_join(press->thread, NULL);
	}
	for (unsigned i = 0; i < JOBS; i++) {
		free(press->jobs[i].rows.list);
		limpet_bytes_done(&press->jobs[i].content);
	}
	limpet_bytes_done(&press->events);
	limpet_event_columns_free(press->columns);
	pthread_cond_destroy(&press->wake);
	pthread_mutex_destroy(&press->lock);
	free(press);
}
