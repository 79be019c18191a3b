#include "injector/stacks/stack_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/confine.h"
#include "common/subprocess.h"
#include "injector/ptrace/step.h"

/* Address space of the process: it holds a copy of limpet's memory. */
#define MEMORY_BYTES (64ull << 30)
#define CPU_SECONDS 60u
#define DESCRIPTORS 16u

struct reading {
	const struct limpet_stack_scene *scene;
	const struct limpet_stack_copy *copies;
	size_t first, count;
};

struct answer {
	int code; /* of the confinement, or of unwinding: then there is nothing else */
	struct limpet_unwound unwound;
};

/* ------------------------------------------------------------------ in the other process */

static void serve(int socket, void *context)
{
	const struct limpet_confinement confinement = {.memory_bytes = MEMORY_BYTES,
						       .cpu_seconds = CPU_SECONDS,
						       .descriptors = DESCRIPTORS};
	const struct reading *reading = context;
	struct iovec vector;
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
	struct answer answer;
	int confined = limpet_confine(&confinement, NULL);

	for (size_t i = reading->first; i < reading->count; i++) {
		if (!reading->copies[i].stack)
			continue;
		memset(&answer, 0, sizeof(answer));
		answer.code = confined ? confined
				       : limpet_stack_unwind(reading->scene, &reading->copies[i],
							     &answer.unwound);
		for (size_t done = 0; done < sizeof(answer);) {
			ssize_t n;

			vector = (struct iovec){(uint8_t *)&answer + done, sizeof(answer) - done};
			n = sendmsg(socket, &message, MSG_NOSIGNAL);
			if (n <= 0)
				return;
			done += (size_t)n;
		}
	}
}

/* ------------------------------------------------------------------ in ours */

/* The process has read hostile memory, and may answer anything. */
static bool is_sound(const struct limpet_unwound *unwound)
{
	if (!unwound->count || unwound->count > LIMPET_STACKS_FRAMES ||
	    unwound->end <= LIMPET_WALK_MORE || unwound->end > LIMPET_WALK_LOST)
		return false;
	for (uint32_t i = 0; i < unwound->count; i++)
		if ((unsigned)unwound->frames[i].finder > LIMPET_FOUND_BY_FP)
			return false;
	return true;
}

static int copy_frames(const struct limpet_unwound *unwound, struct limpet_stack_thread *thread)
{
	thread->frames = calloc(unwound->count, sizeof(*thread->frames));
	if (!thread->frames)
		return -ENOMEM;
	memcpy(thread->frames, unwound->frames, unwound->count * sizeof(*thread->frames));
	thread->count = unwound->count;
	thread->truncated =
		unwound->end != LIMPET_WALK_COMPLETE && unwound->end != LIMPET_WALK_DOUBTFUL;
	return 0;
}

/* Unwinds from reading->first on, which it moves. 0: all of them; 1: the process has ended, or its
 * answer is impossible; -ENOMEM. */
static int read_some(struct reading *reading, struct limpet_stack_thread *threads,
		     struct answer *answer)
{
	struct limpet_subprocess process = LIMPET_SUBPROCESS_NONE;
	int result = limpet_subprocess_start(serve, reading, &process) < 0;

	for (; !result && reading->first < reading->count; reading->first++) {
		struct limpet_stack_thread *thread = &threads[reading->first];

		if (!reading->copies[reading->first].stack)
			continue;
		if (limpet_subprocess_receive(&process, answer, sizeof(*answer)) < 0 ||
		    answer->code < 0 || !is_sound(&answer->unwound)) {
			limpet_step_note(thread->tid, "its copy could not be unwound: %s",
					 answer->code < 0 ? strerror(-answer->code)
							  : "the process has ended");
			result = 1;
			break;
		}
		result = copy_frames(&answer->unwound, thread);
	}
	limpet_subprocess_stop(&process);
	return result;
}

int limpet_stack_reader_run(struct limpet_stack_scene *scene,
			    const struct limpet_stack_copy *copies,
			    struct limpet_stack_thread *threads, size_t count)
{
	struct reading reading = {.scene = scene, .copies = copies, .count = count};
	LIMPET_FREE struct answer *answer = calloc(1, sizeof(*answer));
	int result;

	if (!answer)
		return -ENOMEM;
	result = read_some(&reading, threads, answer);
	if (result == 1) {
		scene->without_libunwind = true;
		answer->code = 0;
		result = read_some(&reading, threads, answer);
	}
	for (size_t i = reading.first; result == 1 && i < count; i++)
		if (copies[i].stack)
			threads[i].missing = LIMPET_STACK_NO_READER;
	return result < 0 ? result : scene->without_libunwind;
}
