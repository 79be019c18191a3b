/* A trace as a stream: what is left out while nobody takes it, and a queue that holds nobody up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/capture/trace_stream.h"
#include "collector/record/trace_sink.h"
#include "common/trace_block.h"
#include "test/unit/trace_fixture.h"

/* ------------------------------------------------------------------ what is left out */

/* Appends to a file, and is behind if it is told to be. */
static struct {
	struct limpet_trace_sink sink;
	int fd;
	bool behind, ending;
} made;

static int made_write(struct limpet_trace_sink *sink, const struct limpet_trace_batch *batch)
{
	assert_false(batch->replacing);
	assert_int_equal(write(made.fd, batch->bytes.data, batch->bytes.count), batch->bytes.count);
	sink->bytes += batch->bytes.count;
	return 0;
}

static bool made_is_behind(struct limpet_trace_sink *sink)
{
	(void)sink;
	return made.behind && !made.ending;
}

static void made_begin_end(struct limpet_trace_sink *sink)
{
	(void)sink;
	made.ending = true;
}

static int made_finish(struct limpet_trace_sink *sink)
{
	(void)sink;
	return close(made.fd);
}

static struct limpet_trace_sink *make_sink(const char *path)
{
	static const struct limpet_trace_sink_kind kind = {.appends = true,
							   .write = made_write,
							   .is_behind = made_is_behind,
							   .begin_end = made_begin_end,
							   .finish = made_finish};

	memset(&made, 0, sizeof(made));
	made.sink.kind = &kind;
	made.sink.name = "made";
	made.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(made.fd >= 0);
	return &made.sink;
}

static void check_sums(const struct capture *capture, const char *path, bool all)
{
	struct limpet_trace_reader *reader = trace_open(path);
	struct limpet_model *model = trace_model(reader, 0, 0);
	const struct limpet_trace_damage *damage = limpet_trace_reader_damage(reader);
	const uint64_t lost = LIMPET_LOSS_BIT(LIMPET_LOSS_STREAM);

	trace_check_totals(capture, model);
	trace_check_sizes(capture, model);
	trace_check_live(capture, reader);
	if (all)
		trace_check_sites(capture, model);
	assert_int_equal(model->losses & lost, all ? 0 : lost);
	assert_int_equal(model->complete, all);
	assert_false(!all && model->exact);
	assert_int_equal(damage->blocks_damaged + damage->blocks_lost + damage->bytes_ignored, 0);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void test_a_slow_reader(void **state)
{
	static struct capture capture;
	const char *path = trace_path("slow");
	struct limpet_recorder_stats stats;
	uint64_t before;

	(void)state;
	capture_begin_sink(&capture, make_sink(path), 5, false);
	assert_int_equal(capture_run(&capture, 100000, 2000), 0);
	made.behind = true;
	assert_int_equal(capture_tick(&capture), 0);
	before = made.sink.bytes;
	/* More than one block's rows. */
	assert_int_equal(capture_run(&capture, 900000, 2000), 0);
	assert_int_equal(made.sink.bytes, before);
	limpet_recorder_stats_read(capture.recorder, &stats);
	assert_in_range(stats.events_given_up, 800000, 902000);
	made.behind = false;
	assert_int_equal(capture_run(&capture, 50000, 2000), 0);
	made.behind = true;
	assert_int_equal(capture_run(&capture, 50000, 2000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, false), 0);
	assert_int_equal(trace_count_blocks(path, LIMPET_TRACE_GAP), 2);
	check_sums(&capture, path, false);
	/* A window that begins where there are only sums: told, too. */
	assert_true(trace_try(path).losses & LIMPET_LOSS_BIT(LIMPET_LOSS_STREAM));
}

static void test_a_reader_that_keeps_up(void **state)
{
	static struct capture capture;
	const char *path = trace_path("quick");

	(void)state;
	capture_begin_sink(&capture, make_sink(path), 5, false);
	assert_int_equal(capture_run(&capture, 100000, 2000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	assert_int_equal(trace_count_blocks(path, LIMPET_TRACE_GAP), 0);
	check_sums(&capture, path, true);
}

/* Without replacing: a period is written when it has its length. */
static void test_compact(void **state)
{
	static struct capture capture;
	const char *path = trace_path("compact");

	(void)state;
	capture_begin_sink(&capture, make_sink(path), 31, true);
	capture.slower = 50; /* nearly four minutes */
	assert_int_equal(capture_run(&capture, 300000, 2000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	assert_in_range(trace_count_blocks(path, LIMPET_TRACE_PERIOD), 3, 6);
	assert_int_equal(trace_count_blocks(path, LIMPET_TRACE_EVENTS), 0);
	check_sums(&capture, path, true);
}

/* ------------------------------------------------------------------ the queue */

static struct limpet_trace_stream *open_stream(int fd)
{
	const struct limpet_trace_stream_options options = {.name = "-", .fd = fd};
	struct limpet_trace_stream *stream = NULL;
	struct limpet_err err = {0};

	signal(SIGPIPE, SIG_IGN);
	if (limpet_trace_stream_open(&options, &stream, &err) < 0)
		fail_msg("%s", err.message);
	return stream;
}

static void wait_for_error(struct limpet_trace_stream *stream, int error)
{
	while (!limpet_trace_stream_error(stream))
		usleep(1000);
	assert_int_equal(limpet_trace_stream_error(stream), error);
}

static void serve_nobody(void *context)
{
	(void)context;
}

/* A batch of one block of that type and about so many bytes. */
static struct limpet_trace_batch batch_of(unsigned type, size_t bytes)
{
	struct limpet_trace_batch batch = {0};
	struct limpet_trace_mark mark = {.type = (uint16_t)type, .frame_bytes = (uint32_t)bytes};
	uint8_t head[LIMPET_TRACE_MARK_BYTES];

	limpet_trace_mark_encode(&mark, head);
	limpet_bytes_append(&batch.bytes, head, sizeof(head));
	assert_true(limpet_bytes_reserve(&batch.bytes, bytes));
	memset(batch.bytes.data + batch.bytes.count, 7, bytes);
	batch.bytes.count += bytes;
	return batch;
}

static void batch_done(struct limpet_trace_batch *batch)
{
	limpet_bytes_done(&batch->bytes);
}

static void test_nobody_waits(void **state)
{
	struct limpet_trace_batch batch = batch_of(LIMPET_TRACE_EVENTS, 1u << 20);
	struct limpet_trace_sink *sink;
	struct limpet_trace_stream *stream;
	size_t before_behind = 0, before_full = 0;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	stream = open_stream(fds[1]);
	sink = limpet_trace_stream_sink(stream);
	limpet_trace_stream_begin(stream);
	for (; !sink->kind->is_behind(sink); before_behind++)
		assert_int_equal(sink->kind->write(sink, &batch), 0);
	for (; sink->kind->write(sink, &batch) == 0; before_full++)
		;
	assert_in_range(before_behind, 15, 19);
	assert_in_range(before_full, 13, 17);
	assert_int_equal(limpet_trace_stream_error(stream), -ENOBUFS);
	limpet_trace_stream_free(stream);
	batch_done(&batch);
	close(fds[0]);
	close(fds[1]);
}

static void test_nothing_before_it_begins(void **state)
{
	struct limpet_trace_batch batch = batch_of(LIMPET_TRACE_EVENTS, 100);
	const volatile sig_atomic_t impatient = 0;
	struct limpet_trace_sink *sink;
	struct limpet_trace_stream *stream;
	uint8_t got[1000];
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	stream = open_stream(fds[1]);
	sink = limpet_trace_stream_sink(stream);
	assert_int_equal(sink->kind->write(sink, &batch), 0);
	limpet_trace_stream_free(stream);
	assert_int_equal(read(fds[0], got, sizeof(got)), -1);

	stream = open_stream(fds[1]);
	sink = limpet_trace_stream_sink(stream);
	assert_int_equal(sink->kind->write(sink, &batch), 0);
	limpet_trace_stream_begin(stream);
	assert_int_equal(limpet_trace_stream_finish(stream, &impatient, serve_nobody, NULL), 0);
	assert_int_equal(read(fds[0], got, sizeof(got)), batch.bytes.count);
	assert_memory_equal(got, batch.bytes.data, batch.bytes.count);
	limpet_trace_stream_free(stream);
	batch_done(&batch);
	close(fds[0]);
	close(fds[1]);
}

/* Also if there is nothing to write. */
static void test_the_reader_goes(void **state)
{
	struct limpet_trace_batch batch = batch_of(LIMPET_TRACE_EVENTS, 100);
	struct limpet_trace_sink *sink;
	struct limpet_trace_stream *stream;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	stream = open_stream(fds[1]);
	sink = limpet_trace_stream_sink(stream);
	limpet_trace_stream_begin(stream);
	close(fds[0]);
	wait_for_error(stream, -EPIPE);
	assert_int_equal(sink->kind->write(sink, &batch), -EPIPE);
	limpet_trace_stream_free(stream);
	batch_done(&batch);
	close(fds[1]);
}

/* The copy for names has no events; what is appended to it is sent. */
static void test_the_copy(void **state)
{
	struct limpet_trace_batch nodes = batch_of(LIMPET_TRACE_NODES, 100);
	struct limpet_trace_batch events = batch_of(LIMPET_TRACE_EVENTS, 1000);
	const volatile sig_atomic_t impatient = 0;
	struct limpet_trace_sink *sink;
	struct limpet_trace_stream *stream;
	struct stat stat;
	uint8_t got[5000];
	int fds[2], fd;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	stream = open_stream(fds[1]);
	sink = limpet_trace_stream_sink(stream);
	limpet_trace_stream_begin(stream);
	assert_int_equal(sink->kind->write(sink, &nodes), 0);
	assert_int_equal(sink->kind->write(sink, &events), 0);
	fd = limpet_trace_stream_copy(stream);
	assert_int_equal(fstat(fd, &stat), 0);
	assert_int_equal(stat.st_size, nodes.bytes.count);
	assert_int_equal(pwrite(fd, "names", 5, stat.st_size), 5);
	assert_int_equal(limpet_trace_stream_finish(stream, &impatient, serve_nobody, NULL), 0);
	limpet_trace_stream_free(stream);
	close(fds[1]);
	assert_int_equal(read(fds[0], got, sizeof(got)),
			 nodes.bytes.count + events.bytes.count + 5);
	assert_memory_equal(got + nodes.bytes.count + events.bytes.count, "names", 5);
	close(fds[0]);
	batch_done(&nodes);
	batch_done(&events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_slow_reader),
		cmocka_unit_test(test_a_reader_that_keeps_up),
		cmocka_unit_test(test_compact),
		cmocka_unit_test(test_nobody_waits),
		cmocka_unit_test(test_nothing_before_it_begins),
		cmocka_unit_test(test_the_reader_goes),
		cmocka_unit_test(test_the_copy),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
