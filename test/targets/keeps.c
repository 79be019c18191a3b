/* keeps: an allocator whose functions leave all registers alone but the one of their answer, and
 * callers that rely on it (keeps_asm.S). Ends with 70 when a register has changed.
 *
 * Commands: "run N": N blocks of 64 bytes are taken and given back; "go" does so until "hold", in a
 * thread; "count": what was taken and given since the start, as JSON; "quit". */
#include <pthread.h>
#include <stdatomic.h>

#include "test/targets/target.h"

enum { BLOCK_BYTES = 64, ROOM = 1 << 20, RAX = 0, RDI = 4, REGISTERS = 11 };

struct keeps_registers {
	uint64_t of[REGISTERS]; /* rax rcx rdx rsi rdi r8 r9 r10 r11 xmm0 xmm15 */
};
void *keeps_take(size_t bytes);
void keeps_give(void *block);
void keeps_call(struct keeps_registers *registers, bool give);

static char memory[ROOM];
char *keeps_next = memory;
uint64_t keeps_given;
static uint64_t taken, seed = 1;
static _Atomic bool going;

static uint64_t call(uint64_t argument, bool give)
{
	struct keeps_registers before, after;

	for (unsigned i = 0; i < REGISTERS; i++)
		before.of[i] = target_random(&seed);
	before.of[RDI] = argument;
	after = before;
	keeps_call(&after, give);
	for (unsigned i = give ? RAX : RAX + 1; i < REGISTERS; i++)
		if (after.of[i] != before.of[i])
			target_broken("%s: register %u was %lx and is %lx", give ? "give" : "take",
				      i, before.of[i], after.of[i]);
	return after.of[RAX];
}

TARGET_FRAME static void keeps_run(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		uint64_t block;

		keeps_next = memory + i % (ROOM / BLOCK_BYTES) * BLOCK_BYTES;
		block = call(BLOCK_BYTES, false);
		if (block != (uint64_t)(uintptr_t)keeps_next - BLOCK_BYTES)
			target_broken("the answer is wrong");
		taken++;
		call(block, true);
	}
	TARGET_KEEP_FRAME();
}

static void *run_on(void *unused)
{
	while (going)
		keeps_run(100);
	return unused;
}

int main(void)
{
	pthread_t thread;
	char line[64];
	unsigned long n;

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "run", &n)) {
			keeps_run(n);
			target_say("ran");
		} else if (target_word(line, "go", &n)) {
			going = true;
			if (pthread_create(&thread, NULL, run_on, NULL))
				target_broken("no thread");
			target_say("going");
		} else if (target_word(line, "hold", &n)) {
			going = false;
			pthread_join(thread, NULL);
			target_say("held");
		} else if (target_word(line, "count", &n)) {
			target_say("{\"allocations\":%lu,\"frees\":%lu}", taken, keeps_given);
		} else {
			break;
		}
	}
	return 0;
}
