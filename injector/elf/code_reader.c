#include "injector/elf/code_reader.h"

#include <string.h>
#include <sys/socket.h>

#include "common/confine.h"

/* Address space of the process: it holds a copy of limpet's memory, and decodes. */
#define MEMORY_BYTES (64ull << 30)
#define CPU_SECONDS 60u
#define DESCRIPTORS 16u
/* Bytes of one function; no caller sends more. */
#define CODE_MAX (1u << 20)

struct request {
	enum { READ_ENTRY, READ_JUMPS, READ_NIM } what;
	enum limpet_entry_kind kind;
	uint64_t address, to, bytes; /* of the code, which follows */
	struct limpet_entry_surroundings around;
	struct limpet_nim_targets targets;
};

struct answer {
	int code;
	struct limpet_err err;
	struct limpet_entry_code entry;
	struct limpet_nim_code nim;
};

/* ------------------------------------------------------------------ in the other process */

static bool receive(int socket, void *to, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = read(socket, (uint8_t *)to + done, bytes - done);

		if (n <= 0 && !(n < 0 && errno == EINTR))
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static int make(const struct request *request, const uint8_t *code, struct answer *ret)
{
	if (request->what == READ_JUMPS)
		return limpet_entry_code_is_jumped_into(&request->around, code);
	if (request->what == READ_NIM)
		return limpet_nim_code_read(code, request->bytes, request->address,
					    &request->targets, &ret->nim);
	switch (request->kind) {
	case LIMPET_ENTRY_CALL:
		return limpet_entry_code_make_call(code, request->address, request->to, &ret->entry,
						   &ret->err);
	case LIMPET_ENTRY_PROBE:
		return limpet_entry_code_make_probe(code, request->bytes, request->address,
						    request->to, &ret->entry, &ret->err);
	default:
		return limpet_entry_code_make(code, request->bytes, request->address, request->to,
					      &ret->entry, &ret->err);
	}
}

static void serve(int socket, void *context)
{
	const struct limpet_confinement confinement = {.memory_bytes = MEMORY_BYTES,
						       .cpu_seconds = CPU_SECONDS,
						       .descriptors = DESCRIPTORS};
	LIMPET_FREE uint8_t *code = malloc(CODE_MAX);
	struct limpet_err why = {0}, confined = {0};
	struct request request;

	(void)context;
	if (!code)
		return;
	if (limpet_confine(&confinement, &why) < 0)
		limpet_err_set(&confined, -ENOTSUP, "limpet's decoder could not be confined (%s)",
			       why.message);
	while (receive(socket, &request, sizeof(request)) && request.bytes <= CODE_MAX &&
	       receive(socket, code, request.bytes)) {
		struct iovec vector;
		struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
		struct answer answer = {.code = -ENOTSUP, .err = confined};

		if (!confined.code)
			answer.code = make(&request, code, &answer);
		vector = (struct iovec){&answer, sizeof(answer)};
		if (sendmsg(socket, &message, MSG_NOSIGNAL) != sizeof(answer))
			return;
	}
}

/* ------------------------------------------------------------------ in ours */

void limpet_code_reader_init(struct limpet_code_reader *reader)
{
	*reader = (struct limpet_code_reader){.process = LIMPET_SUBPROCESS_NONE};
}

void limpet_code_reader_done(struct limpet_code_reader *reader)
{
	limpet_subprocess_stop(&reader->process);
}

static int query(struct limpet_code_reader *reader, const struct request *request,
		 const uint8_t *code, struct answer *ret)
{
	struct iovec parts[] = {{(void *)(uintptr_t)request, sizeof(*request)},
				{(void *)(uintptr_t)code, request->bytes}};
	int result = 0;

	if (reader->failed || request->bytes > CODE_MAX)
		return -EIO;
	if (!reader->process.pid)
		result = limpet_subprocess_start(serve, NULL, &reader->process);
	if (result == 0)
		result = limpet_subprocess_send(&reader->process, parts, LIMPET_COUNT_OF(parts));
	if (result == 0)
		result = limpet_subprocess_receive(&reader->process, ret, sizeof(*ret));
	reader->failed = result < 0;
	ret->err.message[sizeof(ret->err.message) - 1] = '\0';
	ret->err.hint[0] = '\0';
	return result;
}

/* The process has read hostile code, and may answer anything. */
static bool is_sound(const struct limpet_entry_code *entry, const struct request *request,
		     const uint8_t *code)
{
	const uint64_t endbr = 4, longest = 15, skipped = entry->from - request->address;

	if (entry->kind != request->kind || entry->to != request->to ||
	    entry->original_bytes < LIMPET_ENTRY_JUMP_BYTES ||
	    entry->original_bytes > sizeof(entry->original) ||
	    entry->original_bytes > request->bytes || entry->stays > longest ||
	    (!entry->stays && entry->undo) || (skipped && entry->kind != LIMPET_ENTRY_FUNCTION) ||
	    skipped != (entry->stays
				?: skipped ? endbr
					   : 0) ||
	    skipped > request->bytes - entry->original_bytes || !entry->code_bytes ||
	    !entry->place_count ||
	    memcmp(entry->original, code + skipped, entry->original_bytes) != 0 ||
	    entry->code_bytes > sizeof(entry->code) ||
	    entry->place_count > LIMPET_COUNT_OF(entry->places) ||
	    entry->relative_count > LIMPET_COUNT_OF(entry->relative))
		return false;
	for (size_t i = 0; i < entry->place_count; i++)
		if (entry->places[i].from >= entry->original_bytes ||
		    entry->places[i].to > entry->code_bytes)
			return false;
	for (size_t i = 0; i < entry->relative_count; i++)
		if (entry->relative[i] + sizeof(int32_t) > entry->code_bytes)
			return false;
	return true;
}

int limpet_code_reader_entry(struct limpet_code_reader *reader, enum limpet_entry_kind kind,
			     const struct limpet_code *code, uint64_t to,
			     struct limpet_entry_code *ret, struct limpet_err *err)
{
	const struct request request = {
		.kind = kind, .address = code->address, .to = to, .bytes = code->count};
	struct answer answer = {.code = -EIO};
	int result = query(reader, &request, code->bytes, &answer);

	if (result < 0)
		return limpet_err_set(err, -ENOTSUP, "limpet's decoder does not answer: %s",
				      strerror(-result));
	if (answer.code < 0)
		return limpet_err_set(err,
				      answer.code == -ENOMEM || answer.code == -ERANGE ? answer.code
										       : -ENOTSUP,
				      "%s", answer.err.message);
	if (!is_sound(&answer.entry, &request, code->bytes)) {
		reader->failed = true;
		return limpet_err_set(err, -ENOTSUP, "limpet's decoder gave an impossible answer");
	}
	*ret = answer.entry;
	return 0;
}

int limpet_code_reader_jumps(struct limpet_code_reader *reader,
			     const struct limpet_entry_surroundings *around, const uint8_t *code)
{
	const struct request request = {
		.what = READ_JUMPS, .bytes = around->bytes, .around = *around};
	struct answer answer = {.code = -EIO};

	if (query(reader, &request, code, &answer) < 0)
		return -ENOTSUP;
	return answer.code == -ENOMEM || !answer.code ? answer.code : 1;
}

static bool is_within(uint64_t address, uint64_t bytes, const struct request *request)
{
	return bytes <= request->bytes && address - request->address <= request->bytes - bytes;
}

static bool is_nim_sound(const struct limpet_nim_code *nim, const struct request *request)
{
	const unsigned registers = 16;

	if (nim->page_count > LIMPET_COUNT_OF(nim->pages) ||
	    nim->call_count > LIMPET_COUNT_OF(nim->calls))
		return false;
	for (size_t i = 0; i < nim->page_count; i++)
		if (!is_within(nim->pages[i].address, nim->pages[i].bytes, request) ||
		    nim->pages[i].reg >= registers)
			return false;
	for (size_t i = 0; i < nim->call_count; i++)
		if (!is_within(nim->calls[i].address, LIMPET_ENTRY_JUMP_BYTES, request))
			return false;
	return true;
}

int limpet_code_reader_nim(struct limpet_code_reader *reader, const uint8_t *code, size_t bytes,
			   uint64_t address, const struct limpet_nim_targets *targets,
			   struct limpet_nim_code *ret)
{
	const struct request request = {
		.what = READ_NIM, .address = address, .bytes = bytes, .targets = *targets};
	struct answer answer = {.code = -EIO};

	if (query(reader, &request, code, &answer) < 0)
		return -ENOTSUP;
	if (answer.code < 0)
		return answer.code == -ENOMEM ? -ENOMEM : -ENOTSUP;
	if (!is_nim_sound(&answer.nim, &request)) {
		reader->failed = true;
		return -ENOTSUP;
	}
	*ret = answer.nim;
	return 0;
}
