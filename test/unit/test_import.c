/* Files of heaptrack, as they are and damaged: what can be read is right, and the rest is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "analyzer/import/text_bytes.h"
#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"

/* main calls f, which was inlined into g: three blocks of 16 bytes, of which two are freed; one of
 * 256 bytes through operator new. */
static const char good[] = "v 10400 3\nX /opt/demo --quick\nI 1000 100\n"
			   "s 9 /opt/demo\ns 4 main\ns 1 f\ns 1 g\ns 3 m.c\n"
			   "s 1b operator new(unsigned long)\n"
			   "i 1000 1 2 5 7\nt 1 0\n"
			   "i 2000 1 3 5 1 4 5 2\nt 2 1\n"
			   "a 10 2\nc 0\n+ 0\n+ 0\n- 0\nc a\nR 5\n+ 0\n"
			   "i 3000 1 6\nt 3 1\na 100 3\n+ 1\nc 14\nR 3\n- 0\n"
			   "# strings: 6\n";

static const char *copy_of(const void *bytes, size_t count)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("file", MFD_CLOEXEC);
		assert_true(fd >= 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, bytes, count, 0), count);
	return path;
}

struct outcome {
	int code; /* of opening it */
	struct limpet_trace_damage damage;
	struct limpet_model_totals totals;
	uint64_t losses, duration_ns;
	size_t sites;
	struct limpet_err err;
};

static struct outcome read_bytes(const void *bytes, size_t count)
{
	struct outcome outcome = {0};
	struct limpet_trace_reader *reader;
	struct limpet_model *model;

	outcome.code = limpet_trace_reader_open(copy_of(bytes, count), &reader, &outcome.err);
	if (outcome.code < 0) {
		assert_true(outcome.err.message[0]);
		return outcome;
	}
	outcome.damage = *limpet_trace_reader_damage(reader);
	assert_int_equal(limpet_model_build(reader, NULL, &model, &outcome.err), 0);
	outcome.totals = model->totals;
	outcome.losses = model->losses;
	outcome.duration_ns = model->duration_ns;
	outcome.sites = model->site_count;
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	return outcome;
}

static struct outcome read_text(const char *text)
{
	return read_bytes(text, strlen(text));
}

static void test_figures(void **state)
{
	const struct outcome outcome = read_text(good);

	(void)state;
	assert_int_equal(outcome.code, 0);
	assert_int_equal(outcome.damage.bad_lines, 0);
	assert_false(outcome.damage.truncated);
	assert_int_equal(outcome.totals.allocations, 4);
	assert_int_equal(outcome.totals.frees, 2);
	assert_int_equal(outcome.totals.live_bytes, 16 + 256);
	assert_int_equal(outcome.totals.peak_bytes, 32 + 256);
	assert_int_equal(outcome.totals.peak_ns, 10000000);
	/* The first free is of the last allocation; the second comes after another one. */
	assert_int_equal(outcome.totals.temporary_allocations, 1);
	assert_int_equal(outcome.duration_ns, 21000000);
	assert_int_equal(outcome.sites, 2);
	assert_int_equal(outcome.losses, LIMPET_LOSS_BIT(LIMPET_LOSS_RECORDER));
}

static void test_cut_at_every_byte(void **state)
{
	uint64_t allocations = 0;

	(void)state;
	for (size_t cut = 10; cut < sizeof(good) - 1; cut++) {
		const struct outcome outcome = read_bytes(good, cut);

		assert_int_equal(outcome.code, 0);
		assert_int_equal(outcome.damage.bad_lines, 0);
		assert_int_equal(outcome.damage.truncated, good[cut - 1] != '\n');
		assert_in_range(outcome.totals.allocations, allocations, 4);
		allocations = outcome.totals.allocations;
	}
	for (size_t cut = 0; cut < 10; cut++)
		assert_true(read_bytes(good, cut).code < 0);
}

static void test_every_byte_changed(void **state)
{
	static const char others[] = {'0', 'f', ' ', '\n', '\0', '+', '-', (char)0xff};
	char bytes[sizeof(good)];

	(void)state;
	for (size_t at = 0; at < sizeof(good) - 1; at++)
		for (size_t k = 0; k < sizeof(others); k++) {
			struct outcome outcome;

			memcpy(bytes, good, sizeof(good));
			bytes[at] = others[k];
			outcome = read_bytes(bytes, sizeof(good) - 1);
			if (outcome.code == 0)
				assert_true(outcome.totals.live_bytes <= outcome.totals.peak_bytes);
		}
}

/* Each in place of the end, which says nothing. */
static void test_lines_without_sense(void **state)
{
	static const char *const lines[] = {
		"+ 2",
		"+ ffffffffffffffff",
		"+ 10000000000000000",
		"+",
		"+ 0 0",
		"+0",
		"- 1 ",
		"- 2",
		"a 10 4",
		"a ffffffffffffffff 1",
		"a 10",
		"t 4 0",
		"t 1 4",
		"t 1 ffffffffff",
		"i 1000 7",
		"i 1000 1 7 1 1",
		"i 1000 1 1 1",
		"i 1000 1 1 1 ffffffffff",
		"s 5 four",
		"c 1",
		"c ffffffffffffffff",
		"R ffffffffffffffff",
		"I 3 1",
		"X again",
		"A",
		"v 10400 3",
		"Q",
		"\x01",
	};
	char text[sizeof(good) + 64];

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct outcome outcome;

		snprintf(text, sizeof(text), "%s%s\n# more\n", good, lines[i]);
		outcome = read_text(text);
		if (outcome.damage.bad_lines != 1)
			print_error("'%s'\n", lines[i]);
		assert_int_equal(outcome.code, 0);
		assert_int_equal(outcome.damage.bad_lines, strcmp(lines[i], "- 1 ") ? 1 : 0);
		assert_int_equal(outcome.totals.allocations, 4);
		if (outcome.damage.bad_lines) {
			assert_int_equal(outcome.damage.first_bad_line, 30);
			assert_true(outcome.losses & LIMPET_LOSS_BIT(LIMPET_LOSS_DAMAGED));
		}
	}
}

/* Lines that are left out keep their numbers: what follows means the same. */
static void test_numbers_are_kept(void **state)
{
	char *text = strdup(good), *at;
	struct outcome outcome;

	(void)state;
	at = strstr(text, "t 2 1\n");
	at[2] = '9';
	outcome = read_text(text);
	assert_int_equal(outcome.damage.bad_lines, 1);
	assert_int_equal(outcome.totals.allocations, 4);
	assert_int_equal(outcome.totals.live_bytes, 16 + 256);
	assert_int_equal(outcome.sites, 2);
	free(text);
}

static void test_long_lines(void **state)
{
	const size_t count = 5u << 20;
	char *text = malloc(sizeof(good) + count + 16);
	struct outcome outcome;

	(void)state;
	memcpy(text, good, sizeof(good));
	memset(text + sizeof(good) - 1, 's', count);
	strcpy(text + sizeof(good) - 1 + count, "\n+ 0\n");
	outcome = read_text(text);
	assert_int_equal(outcome.damage.bad_lines, 1);
	assert_int_equal(outcome.totals.allocations, 5);
	/* It never ends. */
	text[sizeof(good) - 1 + count] = 's';
	outcome = read_bytes(text, sizeof(good) - 1 + count);
	assert_true(outcome.damage.truncated);
	assert_int_equal(outcome.totals.allocations, 4);
	free(text);
}

static size_t gzip(const void *bytes, size_t count, uint8_t *ret, size_t room)
{
	z_stream stream = {0};

	assert_int_equal(
		deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
	stream.next_in = (uint8_t *)(uintptr_t)bytes;
	stream.avail_in = (uInt)count;
	stream.next_out = ret;
	stream.avail_out = (uInt)room;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	return room - stream.avail_out;
}

static void check_compressed(uint8_t *bytes, size_t count)
{
	struct outcome outcome = read_bytes(bytes, count);

	assert_int_equal(outcome.code, 0);
	assert_int_equal(outcome.totals.allocations, 4);
	for (size_t cut = 0; cut < count; cut++) {
		outcome = read_bytes(bytes, cut);
		assert_true(outcome.code < 0 || outcome.damage.truncated);
	}
	for (size_t at = 0; at < count; at++) {
		bytes[at] ^= 0x10;
		read_bytes(bytes, count);
		bytes[at] ^= 0x10;
	}
}

static void test_compressed(void **state)
{
	uint8_t bytes[4096];
	ZSTD_CCtx *zstd = ZSTD_createCCtx();

	(void)state;
	check_compressed(bytes, gzip(good, sizeof(good) - 1, bytes, sizeof(bytes)));
	ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
	check_compressed(bytes, ZSTD_compress2(zstd, bytes, sizeof(bytes), good, sizeof(good) - 1));
	ZSTD_freeCCtx(zstd);
}

/* A small file that would become a large text. */
static void test_more_than_a_file_may_hold(void **state)
{
	const uint64_t most = limpet_text_bytes_most;
	const size_t count = 16u << 20;
	char *text = malloc(sizeof(good) + count);
	uint8_t *bytes = malloc(1u << 20);
	struct outcome outcome;
	size_t compressed;

	(void)state;
	memcpy(text, good, sizeof(good) - 1);
	memset(text + sizeof(good) - 1, '\n', count);
	compressed = ZSTD_compress(bytes, 1u << 20, text, sizeof(good) - 1 + count, 1);
	assert_in_range(compressed, 1, 10000);
	limpet_text_bytes_most = 1u << 20;
	outcome = read_bytes(bytes, compressed);
	limpet_text_bytes_most = most;
	assert_int_equal(outcome.code, 0);
	assert_true(outcome.damage.truncated);
	assert_int_equal(outcome.totals.allocations, 4);
	free(text);
	free(bytes);
}

static void test_other_files(void **state)
{
	static const char *const texts[] = {"",
					    "v",
					    "v 1\n",
					    "v 1 2 3\n",
					    "v 10400 3",
					    "vertex 10400\n",
					    "# v 10400 3\n",
					    "v 10400 3 4\n",
					    "V 10400 3\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct outcome outcome = read_text(texts[i]);

		assert_true(outcome.code == -ENOMSG || outcome.code == -ENODATA);
	}
	assert_int_equal(read_text("v 10400 4\n").code, -EPROTONOSUPPORT);
	assert_int_equal(read_text("v 10000\n").code, -EPROTONOSUPPORT);
	assert_int_equal(read_text("v 10200\n").code, 0);
	/* Raw, and there is nothing that could read it. */
	setenv("PATH", "", 1);
	assert_int_equal(read_text("v 10400 3\nx 2 /a\n").code, -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_cut_at_every_byte),
		cmocka_unit_test(test_every_byte_changed),
		cmocka_unit_test(test_lines_without_sense),
		cmocka_unit_test(test_numbers_are_kept),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_more_than_a_file_may_hold),
		cmocka_unit_test(test_other_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
