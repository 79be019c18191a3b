/* The decoder in a process of its own: it answers as it would here, may do nothing else, and is not
 * believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "injector/elf/code_reader.h"
#include "test/unit/skip_reason.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

/* sub $24, %rsp; mov 0x100(%rip), %rax; ret */
static const uint8_t function[] = {0x48, 0x83, 0xec, 0x18, 0x48, 0x8b,
				   0x05, 0x00, 0x01, 0x00, 0x00, 0xc3};
static const uint64_t address = 0x400000, place = 0x500000;

/* What the decoder does beside: in the other process, whose variables are copies of ours. */
static enum { HONEST, ENDS, REACHES_OUT, LIES } does;
static void (*lie)(struct limpet_entry_code *code);

int __real_limpet_entry_code_make(const uint8_t *code, size_t bytes, uint64_t address_of_it,
				  uint64_t to, struct limpet_entry_code *ret,
				  struct limpet_err *err);
int __wrap_limpet_entry_code_make(const uint8_t *code, size_t bytes, uint64_t address_of_it,
				  uint64_t to, struct limpet_entry_code *ret,
				  struct limpet_err *err);

static bool reaches_anything(void)
{
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ||
	       socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 || fork() >= 0 ||
	       kill(getppid(), 0) == 0 ||
	       mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
		       MAP_FAILED;
}

int __wrap_limpet_entry_code_make(const uint8_t *code, size_t bytes, uint64_t address_of_it,
				  uint64_t to, struct limpet_entry_code *ret,
				  struct limpet_err *err)
{
	int result;

	if (does == ENDS)
		_exit(0);
	if (does == REACHES_OUT && reaches_anything())
		return limpet_err_set(err, -ENOTSUP, "it reaches out");
	result = __real_limpet_entry_code_make(code, bytes, address_of_it, to, ret, err);
	if (does == LIES)
		lie(ret);
	return result;
}

static int ask(struct limpet_code_reader *reader, struct limpet_entry_code *ret,
	       struct limpet_err *err)
{
	const struct limpet_code code = {function, sizeof(function), address};

	return limpet_code_reader_entry(reader, LIMPET_ENTRY_FUNCTION, &code, place, ret, err);
}

static void test_same_answers(void **state)
{
	static const uint8_t nothing[] = {0x06, 0x06, 0x06, 0x06, 0x06, 0x06};
	static const struct limpet_nim_targets targets = {.get = {0x401000}, .get_count = 1};
	/* call 0x401000; ret */
	static const uint8_t call[] = {0xe8, 0xfb, 0x0f, 0x00, 0x00, 0xc3};
	struct limpet_entry_code here, there;
	struct limpet_nim_code nim;
	struct limpet_code_reader reader;
	struct limpet_err err = {0};

	(void)state;
	does = HONEST;
	limpet_code_reader_init(&reader);
	memset(&here, 0, sizeof(here));
	memset(&there, 0, sizeof(there));
	assert_int_equal(
		limpet_entry_code_make(function, sizeof(function), address, place, &here, &err), 0);
	assert_int_equal(ask(&reader, &there, &err), 0);
	assert_memory_equal(&here, &there, sizeof(here));
	assert_int_equal(
		limpet_code_reader_entry(&reader, LIMPET_ENTRY_FUNCTION,
					 &(struct limpet_code){nothing, sizeof(nothing), address},
					 place, &there, &err),
		-ENOTSUP);
	assert_non_null(strstr(err.message, "not an instruction"));
	assert_int_equal(limpet_code_reader_entry(&reader, LIMPET_ENTRY_CALL,
						  &(struct limpet_code){call, 5, address}, place,
						  &there, &err),
			 0);
	assert_int_equal(there.kind, LIMPET_ENTRY_CALL);
	assert_int_equal(
		limpet_code_reader_nim(&reader, call, sizeof(call), address, &targets, &nim), 0);
	assert_int_equal(nim.gets, 1);
	assert_int_equal(nim.call_count, 1);
	assert_int_equal(nim.calls[0].address, address);
	limpet_code_reader_done(&reader);
	/* One that was asked nothing was never begun. */
	limpet_code_reader_init(&reader);
	assert_int_equal(reader.process.pid, 0);
	limpet_code_reader_done(&reader);
}

static void test_confined(void **state)
{
	struct limpet_entry_code code;
	struct limpet_code_reader reader;
	struct limpet_err err = {0};

	(void)state;
	if (IS_SANITIZED)
		limpet_skip("variants with sanitizers are not confined");
	does = REACHES_OUT;
	limpet_code_reader_init(&reader);
	if (ask(&reader, &code, &err) < 0)
		fail_msg("%s", err.message);
	limpet_code_reader_done(&reader);
}

static void test_ended(void **state)
{
	struct limpet_entry_code code;
	struct limpet_code_reader reader;
	struct limpet_err err = {0};

	(void)state;
	does = ENDS;
	limpet_code_reader_init(&reader);
	assert_int_equal(ask(&reader, &code, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "does not answer"));
	does = HONEST;
	assert_int_equal(ask(&reader, &code, &err), -ENOTSUP);
	limpet_code_reader_done(&reader);
}

static void long_original(struct limpet_entry_code *code)
{
	code->original_bytes = sizeof(code->original) + 1;
}
static void no_original(struct limpet_entry_code *code)
{
	code->original_bytes = 0;
}
static void short_original(struct limpet_entry_code *code)
{
	code->original_bytes = LIMPET_ENTRY_JUMP_BYTES - 1;
}
static void no_code(struct limpet_entry_code *code)
{
	code->code_bytes = code->relative_count = 0;
}
static void another_original(struct limpet_entry_code *code)
{
	code->original[0] ^= 1;
}
static void elsewhere(struct limpet_entry_code *code)
{
	code->from = 0x7fff00000000;
}
static void behind(struct limpet_entry_code *code)
{
	code->from = address + sizeof(function) - 1;
}
static void long_code(struct limpet_entry_code *code)
{
	code->code_bytes = SIZE_MAX;
}
static void many_places(struct limpet_entry_code *code)
{
	code->place_count = SIZE_MAX;
}
static void many_relative(struct limpet_entry_code *code)
{
	code->relative_count = SIZE_MAX;
}
static void relative_behind(struct limpet_entry_code *code)
{
	code->relative[0] = (uint8_t)(code->code_bytes - 3);
}
static void place_behind(struct limpet_entry_code *code)
{
	code->places[0].from = (uint8_t)code->original_bytes;
}
static void another_kind(struct limpet_entry_code *code)
{
	code->kind = (enum limpet_entry_kind)77;
}
static void another_place(struct limpet_entry_code *code)
{
	code->to++;
}

static void test_not_believed(void **state)
{
	static void (*const lies[])(struct limpet_entry_code *) = {
		short_original, no_code,         long_original, no_original,  another_original,
		elsewhere,      behind,          long_code,     many_places,  many_relative,
		place_behind,   relative_behind, another_kind,  another_place};

	(void)state;
	does = LIES;
	for (size_t i = 0; i < LIMPET_COUNT_OF(lies); i++) {
		struct limpet_entry_code code;
		struct limpet_code_reader reader;
		struct limpet_err err = {0};

		lie = lies[i];
		limpet_code_reader_init(&reader);
		if (ask(&reader, &code, &err) != -ENOTSUP || !strstr(err.message, "impossible"))
			fail_msg("lie %zu: %s", i, err.message);
		limpet_code_reader_done(&reader);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_answers),
		cmocka_unit_test(test_confined),
		cmocka_unit_test(test_ended),
		cmocka_unit_test(test_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
