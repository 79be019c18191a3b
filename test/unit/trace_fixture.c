#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/unit/trace_fixture.h"

char trace_directory[] = "/tmp/limpet-test-trace-XXXXXX";
static char *second_reader;

const char *trace_path(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", trace_directory, name);
	return path;
}

static char sources[PATH_MAX];

char *trace_source_path(const char *path)
{
	char *whole = NULL;

	assert_true(asprintf(&whole, "%s/%s", sources, path) > 0);
	return whole;
}

int trace_enter_directory(void **state)
{
	(void)state;
	if (!getcwd(sources, sizeof(sources)))
		return -1;
	second_reader = trace_source_path("scripts/limpet-trace-read");
	return access(second_reader, X_OK) == 0 && mkdtemp(trace_directory) &&
			       chdir(trace_directory) == 0
		       ? 0
		       : -1;
}

int trace_leave_directory(void **state)
{
	char command[300];

	(void)state;
	free(second_reader);
	snprintf(command, sizeof(command), "rm -rf '%s'", trace_directory);
	return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

/* ------------------------------------------------------------------ made and read */

struct limpet_trace_reader *trace_open(const char *path)
{
	struct limpet_trace_reader *reader = NULL;
	struct limpet_err err = {0};

	if (limpet_trace_reader_open(path, &reader, &err) < 0)
		fail_msg("%s", err.message);
	return reader;
}

struct limpet_model *trace_model(struct limpet_trace_reader *reader, uint64_t from_ns,
				 uint64_t to_ns)
{
	struct limpet_model_options options = {.from_ns = from_ns, .to_ns = to_ns};
	struct limpet_model *model = NULL;
	struct limpet_err err = {0};

	if (limpet_model_build(reader, &options, &model, &err) < 0)
		fail_msg("%s", err.message);
	return model;
}

void trace_make(struct capture *capture, const char *path, uint64_t events, uint64_t tick_events,
		uint64_t seed)
{
	unlink(path);
	capture_begin(capture, path, TRACE_MEMORY_BYTES, seed);
	assert_int_equal(capture_run(capture, events, tick_events), 0);
	assert_int_equal(capture_finish(capture, LIMPET_END_DURATION, true), 0);
}

size_t trace_count_blocks(const char *path, enum limpet_trace_block_type type)
{
	struct limpet_trace_reader *reader = trace_open(path);
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks), of_type = 0;

	for (size_t i = 0; i < count; i++)
		of_type += blocks[i].type == type && !blocks[i].damaged;
	limpet_trace_reader_free(reader);
	return of_type;
}

uint8_t *trace_read_bytes(const char *path, size_t *ret_count)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes;
	long count;

	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	count = ftell(file);
	rewind(file);
	bytes = malloc((size_t)count + 1);
	assert_int_equal(fread(bytes, 1, (size_t)count, file), (size_t)count);
	fclose(file);
	*ret_count = (size_t)count;
	return bytes;
}

void trace_write_bytes(const char *path, const uint8_t *bytes, size_t count)
{
	FILE *file;

	/* A new file each time: some file systems bring one that is written over to the disk. */
	unlink(path);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
}

struct trace_outcome trace_try(const char *path)
{
	struct trace_outcome outcome = {0};
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	struct limpet_err err = {0};
	const struct limpet_trace_damage *damage;

	outcome.code = limpet_trace_reader_open(path, &reader, &err);
	if (outcome.code < 0) {
		assert_int_equal(err.code, outcome.code);
		assert_string_not_equal(err.message, "");
		return outcome;
	}
	outcome.code = limpet_model_build(reader, NULL, &model, &err);
	assert_int_equal(outcome.code, 0);
	damage = limpet_trace_reader_damage(reader);
	outcome.complete = model->complete;
	outcome.exact = model->exact;
	outcome.losses = model->losses;
	outcome.whole = !damage->blocks_damaged && !damage->blocks_lost && !damage->bytes_ignored &&
			!damage->truncated;
	outcome.end = model->end->end;
	outcome.events = model->totals.events;
	outcome.live_bytes = model->totals.live_bytes;
	outcome.duration_ns = model->duration_ns;
	outcome.totals = model->totals;
	for (size_t i = 0; i < model->site_count; i++)
		outcome.site_sum += model->sites[i].live_bytes +
				    model->sites[i].allocated_bytes * 3 +
				    model->sites[i].peak_bytes * 5;
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	return outcome;
}

/* ------------------------------------------------------------------ recorded by hand */

struct limpet_recorder_options trace_options(const char *path)
{
	return (struct limpet_recorder_options){.path = path,
						.owner_uid = geteuid(),
						.owner_gid = getegid(),
						.memory_bytes = TRACE_MEMORY_BYTES,
						.comm = "x",
						.unseen_rss_share = -1};
}

struct limpet_recorder *trace_record(const struct limpet_recorder_options *options)
{
	struct limpet_recorder *recorder = NULL;
	struct limpet_err err = {0};

	if (limpet_recorder_open(options, &recorder, &err) < 0)
		fail_msg("%s", err.message);
	return recorder;
}

void trace_end_period(struct limpet_recorder *recorder, uint64_t seconds)
{
	struct limpet_recorder_tick tick = {.time_ns = seconds * SECOND};

	assert_int_equal(limpet_recorder_tick(recorder, &tick), 0);
}

void trace_finish(struct limpet_recorder *recorder, const struct limpet_recorder_tick *tick)
{
	struct limpet_recorder_end end = {.end = LIMPET_END_STOP, .time_ns = tick->time_ns};

	assert_int_equal(limpet_recorder_finish(recorder, tick, &end), 0);
	limpet_recorder_free(recorder);
}

/* ------------------------------------------------------------------ judged */

void trace_check_totals(const struct capture *capture, const struct limpet_model *model)
{
	const uint64_t *expected = capture->totals;
	const struct limpet_model_totals *totals = &model->totals;

	assert_int_equal(totals->events, expected[LIMPET_TOTAL_EVENTS]);
	assert_int_equal(totals->allocations, expected[LIMPET_TOTAL_ALLOCATIONS]);
	assert_int_equal(totals->allocated_bytes, expected[LIMPET_TOTAL_ALLOCATED_BYTES]);
	assert_int_equal(totals->frees, expected[LIMPET_TOTAL_FREES]);
	assert_int_equal(totals->freed_bytes, expected[LIMPET_TOTAL_FREED_BYTES]);
	assert_int_equal(totals->temporary_allocations, expected[LIMPET_TOTAL_TEMPORARY]);
	assert_int_equal(totals->reallocations, expected[LIMPET_TOTAL_REALLOCATIONS]);
	assert_int_equal(totals->foreign_frees, expected[LIMPET_TOTAL_FOREIGN_FREES]);
	assert_int_equal(totals->foreign_freed_bytes, expected[LIMPET_TOTAL_FOREIGN_FREED_BYTES]);
	assert_int_equal(totals->live_bytes, capture->live_bytes);
	assert_int_equal(totals->growth_bytes, capture->live_bytes);
	assert_int_equal(totals->peak_bytes, capture->peak_bytes);
	assert_int_equal(totals->peak_ns, capture->peak_ns);
	assert_int_equal(totals->mmaps, expected[LIMPET_TOTAL_MMAPS]);
	assert_int_equal(totals->mmap_bytes, expected[LIMPET_TOTAL_MMAP_BYTES]);
	assert_int_equal(totals->munmaps, expected[LIMPET_TOTAL_MUNMAPS]);
	assert_int_equal(totals->unmapped_bytes, expected[LIMPET_TOTAL_UNMAPPED_BYTES]);
	assert_int_equal(totals->foreign_unmapped_bytes,
			 expected[LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES]);
	assert_int_equal(totals->mapped_bytes,
			 expected[LIMPET_TOTAL_MMAP_BYTES] - expected[LIMPET_TOTAL_UNMAPPED_BYTES]);
}

const struct limpet_model_site *trace_site(const struct limpet_model *model, uint32_t node)
{
	static const struct limpet_model_site none;

	for (size_t i = 0; i < model->site_count; i++)
		if (model->sites[i].node == node)
			return &model->sites[i];
	return &none;
}

void trace_check_sites(const struct capture *capture, const struct limpet_model *model)
{
	for (uint32_t i = 0; i < CAPTURE_SITES; i++) {
		const struct capture_site *expected = &capture->sites[i];
		const struct limpet_model_site *site = trace_site(model, capture_trace_node(i));

		assert_int_equal(site->allocations, expected->allocations);
		assert_int_equal(site->allocated_bytes, expected->allocated_bytes);
		assert_int_equal(site->frees, expected->frees);
		assert_int_equal(site->freed_bytes, expected->freed_bytes);
		assert_int_equal(site->temporary_allocations, expected->temporary);
		assert_int_equal(site->reallocations, expected->reallocations);
		assert_int_equal(site->live_allocations, expected->live);
		assert_int_equal(site->live_bytes, expected->live_bytes);
		assert_int_equal(site->peak_allocations, expected->peak);
		assert_int_equal(site->peak_bytes, expected->peak_bytes);
	}
}

void trace_check_sizes(const struct capture *capture, const struct limpet_model *model)
{
	size_t at = 0;

	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		if (!capture->size_counts[i])
			continue;
		assert_true(at < model->size_count);
		assert_int_equal(model->sizes[at].allocations, capture->size_counts[i]);
		assert_int_equal(limpet_trace_size_bucket(model->sizes[at].from_bytes), i);
		assert_int_equal(limpet_trace_size_bucket(model->sizes[at].to_bytes), i);
		at++;
	}
	assert_int_equal(at, model->size_count);
}

void trace_check_live(const struct capture *capture, struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks);
	uint64_t live = 0, mapped_bytes = 0, expected = 0, last = 0;

	for (size_t i = 0; i < count; i++) {
		struct limpet_trace_live *list;
		int64_t entries;

		if (blocks[i].type != LIMPET_TRACE_LIVE)
			continue;
		entries = limpet_trace_live_load(reader, i, &list);
		assert_true(entries > 0);
		for (int64_t n = 0; n < entries; n++) {
			const struct capture_block *block;

			if (list[n].mapping) {
				mapped_bytes += list[n].size;
				continue;
			}
			assert_true(list[n].address > last);
			last = list[n].address;
			block = &capture->blocks[(list[n].address - 0x7f0000000000ull) / 32];
			assert_true(block->live);
			assert_int_equal(list[n].size, block->size);
			assert_int_equal(list[n].node, capture_trace_node(block->site));
			assert_int_equal(list[n].tid, 100 + block->thread);
			assert_int_equal(list[n].time_ns / LIMPET_TRACE_TICK_NS,
					 block->time_ns / LIMPET_TRACE_TICK_NS);
			live++;
		}
		free(list);
	}
	for (uint32_t i = 0; i < CAPTURE_BLOCKS; i++)
		expected += capture->blocks[i].live;
	assert_int_equal(live, expected);
	assert_int_equal(mapped_bytes, capture->totals[LIMPET_TOTAL_MMAP_BYTES] -
					       capture->totals[LIMPET_TOTAL_UNMAPPED_BYTES]);
}

/* ------------------------------------------------------------------ a reader of another make */

json_t *second_reader_ask(const char *path, int *ret_status)
{
	char command[2 * PATH_MAX];
	json_error_t error;
	json_t *answer;
	FILE *pipe;
	int status;

	snprintf(command, sizeof(command), "'%s' '%s'", second_reader, path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	answer = json_loadf(pipe, 0, &error);
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	*ret_status = WEXITSTATUS(status);
	return answer;
}

static uint64_t number_in(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		fail_msg("no number \"%s\"", key);
	return (uint64_t)json_integer_value(value);
}

void second_reader_check(const char *path)
{
	struct limpet_trace_reader *reader = trace_open(path);
	struct limpet_model *model = trace_model(reader, 0, 0);
	const struct limpet_model_totals *totals = &model->totals;
	json_t *answer, *theirs, *capture;
	int status;

	answer = second_reader_ask(path, &status);
	assert_int_equal(status, 0);
	assert_int_equal(json_array_size(json_object_get(answer, "wrong")), 0);
	theirs = json_object_get(answer, "totals");
	assert_int_equal(number_in(theirs, "events"), totals->events);
	assert_int_equal(number_in(theirs, "allocations"), totals->allocations);
	assert_int_equal(number_in(theirs, "freed_bytes"), totals->freed_bytes);
	assert_int_equal(number_in(theirs, "temporary_allocations"), totals->temporary_allocations);
	assert_int_equal(number_in(theirs, "reallocations"), totals->reallocations);
	assert_int_equal(number_in(theirs, "foreign_unmapped_bytes"),
			 totals->foreign_unmapped_bytes);
	assert_int_equal(number_in(theirs, "untracked_bytes"), totals->untracked_bytes);
	assert_int_equal(number_in(theirs, "live_bytes"), totals->live_bytes);
	assert_int_equal(number_in(theirs, "peak_bytes"), totals->peak_bytes);
	assert_int_equal(number_in(theirs, "peak_ns"), totals->peak_ns);
	capture = json_object_get(answer, "capture");
	assert_int_equal(json_is_true(json_object_get(capture, "complete")), model->complete);
	assert_string_equal(json_string_value(json_object_get(capture, "end")),
			    limpet_trace_end_word(model->end->end));
	theirs = json_object_get(answer, "sites");
	assert_int_equal(json_array_size(theirs), model->site_count);
	for (size_t i = 0; i < model->site_count; i++) {
		const json_t *site = json_array_get(theirs, i);

		assert_int_equal(number_in(site, "node"), model->sites[i].node);
		assert_int_equal(number_in(site, "allocations"), model->sites[i].allocations);
		assert_int_equal(number_in(site, "reallocations"), model->sites[i].reallocations);
		assert_int_equal(number_in(site, "live_bytes"), model->sites[i].live_bytes);
		assert_int_equal(number_in(site, "peak_bytes"), model->sites[i].peak_bytes);
	}
	assert_int_equal(number_in(answer, "nodes") + 1, model->node_count);
	if (model->target->container[0]) {
		theirs = json_object_get(answer, "target");
		assert_string_equal(json_string_value(json_object_get(theirs, "container")),
				    model->target->container);
		assert_int_equal(number_in(theirs, "cgroup_limit_bytes"),
				 model->target->cgroup_limit_bytes);
	}
	theirs = json_object_get(answer, "timeline");
	assert_int_equal(json_array_size(theirs), model->timeline_count);
	for (size_t i = 0; i < model->timeline_count; i++) {
		const json_t *point = json_array_get(theirs, i);
		const json_t *group = json_object_get(point, "cgroup_bytes");

		assert_int_equal(number_in(point, "rss_bytes"), model->timeline[i].rss_bytes);
		assert_int_equal((uint64_t)json_integer_value(group),
				 model->timeline[i].cgroup_bytes);
	}
	json_decref(answer);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}
