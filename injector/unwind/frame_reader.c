#include "injector/unwind/frame_reader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/confine.h"

/* Address space of the process: it holds a copy of limpet's memory. The processor time also ends
 * the wait for it. */
#define MEMORY_BYTES (64ull << 30)
#define CPU_SECONDS 30u
#define DESCRIPTORS 16u
#define WAIT_MS (180 * 1000)
/* No module has more: an instruction each. */
#define ROWS_MAX (32u << 20)

struct answer {
	int error;
	uint32_t functions, functions_unclear;
	uint64_t bytes, count; /* of the rows, which follow */
};

/* ------------------------------------------------------------------ in the other process */

static bool send_all(int socket, const void *bytes, size_t count)
{
	for (size_t done = 0; done < count;) {
		struct iovec vector = {(char *)(uintptr_t)bytes + done, count - done};
		const struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
		const ssize_t n = sendmsg(socket, &message, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static void serve(int socket, void *context)
{
	const struct limpet_confinement confinement = {.memory_bytes = MEMORY_BYTES,
						       .cpu_seconds = CPU_SECONDS,
						       .descriptors = DESCRIPTORS};
	struct limpet_frame_rows rows = {0};
	struct limpet_err why;
	struct answer answer = {.error = limpet_confine(&confinement, &why)};

	if (!answer.error)
		answer.error = limpet_frame_code_read(context, &rows);
	answer.count = rows.count;
	answer.functions = rows.functions;
	answer.functions_unclear = rows.functions_unclear;
	answer.bytes = rows.bytes;
	if (send_all(socket, &answer, sizeof(answer)))
		send_all(socket, rows.list, rows.count * sizeof(*rows.list));
}

/* ------------------------------------------------------------------ in ours */

int limpet_frame_reader_start(const struct limpet_frame_code *code, struct limpet_frame_reader *ret)
{
	struct limpet_frame_reader reader = LIMPET_FRAME_READER_NONE;
	int error = limpet_subprocess_start(serve, (void *)(uintptr_t)code, &reader.process);

	if (error)
		return error;
	reader.bytes = code->bytes;
	*ret = reader;
	return 0;
}

void limpet_frame_reader_stop(struct limpet_frame_reader *reader)
{
	if (reader->process.pid)
		limpet_subprocess_stop(&reader->process);
	*reader = LIMPET_FRAME_READER_NONE;
}

/* The process has read hostile code, and may answer anything: the rules that it may give are those
 * of limpet_frame_code_read(), and rows ascend. */
static bool are_sound(const struct limpet_frame_rows *rows, uint32_t bytes)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct limpet_frame_row *row = &rows->list[i];

		if (row->offset > bytes || (i && row->offset <= rows->list[i - 1].offset) ||
		    (row->rule.cfa != LIMPET_CFA_NONE && row->rule.cfa != LIMPET_CFA_SP &&
		     row->rule.cfa != LIMPET_CFA_FP) ||
		    (row->rule.fp != LIMPET_FP_SAME && row->rule.fp != LIMPET_FP_CFA &&
		     row->rule.fp != LIMPET_FP_LOST) ||
		    row->rule.ra != LIMPET_RA_CFA || row->rule.flags || row->rule.extra)
			return false;
	}
	return true;
}

static int receive(const struct limpet_frame_reader *reader, struct limpet_frame_rows *ret_rows)
{
	struct limpet_frame_rows rows = {0};
	struct answer answer;
	int error = limpet_subprocess_receive(&reader->process, &answer, sizeof(answer));

	if (error || answer.error)
		return error ? error : answer.error < 0 ? answer.error : -EIO;
	if (answer.count > ROWS_MAX)
		return -EIO;
	rows.list = malloc(answer.count * sizeof(*rows.list) + 1);
	if (!rows.list)
		return -ENOMEM;
	rows.count = answer.count;
	rows.functions = answer.functions;
	rows.functions_unclear = answer.functions_unclear;
	rows.bytes = answer.bytes;
	error = limpet_subprocess_receive(&reader->process, rows.list,
					  rows.count * sizeof(*rows.list));
	if (!error && !are_sound(&rows, reader->bytes))
		error = -EIO;
	if (error)
		free(rows.list);
	else
		*ret_rows = rows;
	return error;
}

static int poll_answer(const struct limpet_frame_reader *reader, int wait_ms)
{
	struct pollfd poller = {.fd = reader->process.socket, .events = POLLIN};
	int ready;

	do
		ready = poll(&poller, 1, wait_ms);
	while (ready < 0 && errno == EINTR);
	return ready;
}

bool limpet_frame_reader_is_done(const struct limpet_frame_reader *reader)
{
	return poll_answer(reader, 0) > 0;
}

int limpet_frame_reader_finish(struct limpet_frame_reader *reader, bool wait,
			       struct limpet_frame_rows *ret_rows)
{
	const int ready = poll_answer(reader, wait ? WAIT_MS : 0);
	int error;

	if (ready <= 0 && !wait)
		return -EAGAIN;
	error = ready > 0 ? receive(reader, ret_rows) : -ETIMEDOUT;
	limpet_frame_reader_stop(reader);
	return error;
}
