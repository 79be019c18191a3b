/* manyargs: an allocator whose functions have arguments of every kind and number, which they check
 * themselves. Ends with 70 when one is not as it was given.
 *
 * Commands: "run N": N rounds, each with a call of every function; "threads N": the same on each of
 * four threads; "large N": N blocks for a caller whose frame is of 64 KiB; "count": what was done
 * since the start, as JSON; "numbers N": N calls of one that answers a small number; "quit". */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "test/targets/target.h"

enum { THREADS = 4, MOST = 11, VARIADIC = 30, LARGE_FRAME = 65536 };

static _Atomic unsigned long allocations, frees, allocated_bytes;

/* What each argument is, by the first and its number. */
static uint64_t nth(uint64_t first, unsigned number)
{
	return (first + number) * 0x9e3779b97f4a7c15 ^ number;
}

static void check(bool right, const char *function, unsigned number)
{
	if (!right)
		target_broken("%s: argument %u is wrong", function, number);
}

static void *made(size_t bytes)
{
	void *block = malloc(bytes);

	if (!block)
		target_broken("no memory");
	allocations++;
	allocated_bytes += bytes;
	return block;
}

typedef uint64_t u;
#define CHECK(n) check(n <= MOST && a##n == nth(size, n), __func__, n)
#define P1 , u a1
#define P2 P1, u a2
#define P3 P2, u a3
#define P4 P3, u a4
#define P5 P4, u a5
#define P6 P5, u a6
#define P7 P6, u a7
#define P8 P7, u a8
#define P9 P8, u a9
#define P10 P9, u a10
#define P11 P10, u a11
#define C1 CHECK(1)
#define C2 C1, CHECK(2)
#define C3 C2, CHECK(3)
#define C4 C3, CHECK(4)
#define C5 C4, CHECK(5)
#define C6 C5, CHECK(6)
#define C7 C6, CHECK(7)
#define C8 C7, CHECK(8)
#define C9 C8, CHECK(9)
#define C10 C9, CHECK(10)
#define C11 C10, CHECK(11)
#define A(n) nth(size, n)
#define TAKE(n, parameters, checks)                              \
	void *many_take_##n(size_t size parameters);             \
	TARGET_FRAME void *many_take_##n(size_t size parameters) \
	{                                                        \
		checks;                                          \
		return made(size);                               \
	}
TAKE(1, , (void)0)
TAKE(2, P1, C1)
TAKE(3, P2, C2)
TAKE(4, P3, C3)
TAKE(5, P4, C4)
TAKE(6, P5, C5)
TAKE(7, P6, C6)
TAKE(8, P7, C7)
TAKE(9, P8, C8)
TAKE(10, P9, C9)
TAKE(11, P10, C10)
TAKE(12, P11, C11)

/* Doubles among them, ten, so that two are on the stack; and a long double, which always is. */
void *many_take_mixed(size_t size, double d1, u a1, double d2, u a2, double d3, u a3, double d4,
		      u a4, double d5, u a5, double d6, u a6, double d7, u a7, double d8, double d9,
		      double d10, long double l, int small);
TARGET_FRAME void *many_take_mixed(size_t size, double d1, u a1, double d2, u a2, double d3, u a3,
				   double d4, u a4, double d5, u a5, double d6, u a6, double d7,
				   u a7, double d8, double d9, double d10, long double l, int small)
{
	double d[] = {d1, d2, d3, d4, d5, d6, d7, d8, d9, d10};

	C7;
	for (unsigned i = 0; i < 10; i++)
		check(d[i] == (double)(size + i), __func__, 20 + i);
	check(l == (long double)size / 3 && small == (int)size, __func__, 30);
	return made(size);
}

/* By value: in memory; one that asks to be aligned; and an answer that is one. */
struct big {
	u words[75];
};
struct aligned {
	u words[8];
} __attribute__((aligned(64)));
struct answer {
	void *block;
	u words[4];
};
void *many_take_struct(size_t size, struct big big, u a1, u a2, u a3, u a4, u a5, u a6,
		       struct aligned aligned);
TARGET_FRAME void *many_take_struct(size_t size, struct big big, u a1, u a2, u a3, u a4, u a5, u a6,
				    struct aligned aligned)
{
	C6;
	for (unsigned i = 0; i < 75; i++)
		check(big.words[i] == nth(size, i), __func__, 100 + i);
	for (unsigned i = 0; i < 8; i++)
		check(aligned.words[i] == nth(size, i), __func__, 200 + i);
	__asm__ volatile("" : : "r"(&aligned) : "memory");
	check((uintptr_t)&aligned % 64 == 0, __func__, 300);
	return made(size);
}

struct answer many_give(void *block, size_t size P11);
TARGET_FRAME struct answer many_give(void *block, size_t size P11)
{
	struct answer answer = {NULL, {A(1), A(2), A(3), A(4)}};

	C11;
	frees++;
	free(block);
	return answer;
}

void *many_take_variadic(size_t size, ...);
TARGET_FRAME void *many_take_variadic(size_t size, ...)
{
	va_list args;

	va_start(args, size);
	for (unsigned i = 0; i < VARIADIC; i++)
		if (i % 3)
			check(va_arg(args, u) == nth(size, i), __func__, i);
		else
			check(va_arg(args, double) == (double)(size + i), __func__, i);
	va_end(args);
	return made(size);
}

TARGET_FRAME static void given(void *block, size_t size)
{
	struct answer answer = many_give(block, size, A(1), A(2), A(3), A(4), A(5), A(6), A(7),
					 A(8), A(9), A(10), A(11));

	check(!answer.block, "many_give", 0);
	for (unsigned i = 0; i < 4; i++)
		check(answer.words[i] == nth(size, i + 1), "many_give: answer", i);
}

#define V(n) (double)(size + (n)), A(n + 1), A(n + 2)
TARGET_FRAME static void round_of(size_t size)
{
	struct aligned aligned;
	struct big big;

	for (unsigned i = 0; i < 75; i++)
		big.words[i] = A(i);
	for (unsigned i = 0; i < 8; i++)
		aligned.words[i] = A(i);
	given(many_take_1(size), size);
	given(many_take_2(size, A(1)), size);
	given(many_take_3(size, A(1), A(2)), size);
	given(many_take_4(size, A(1), A(2), A(3)), size);
	given(many_take_5(size, A(1), A(2), A(3), A(4)), size);
	given(many_take_6(size, A(1), A(2), A(3), A(4), A(5)), size);
	given(many_take_7(size, A(1), A(2), A(3), A(4), A(5), A(6)), size);
	given(many_take_8(size, A(1), A(2), A(3), A(4), A(5), A(6), A(7)), size);
	given(many_take_9(size, A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8)), size);
	given(many_take_10(size, A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9)), size);
	given(many_take_11(size, A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10)),
	      size);
	given(many_take_12(size, A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10),
			   A(11)),
	      size);
#define F(i) (double)(size + (i))
	given(many_take_mixed(size, F(0), A(1), F(1), A(2), F(2), A(3), F(3), A(4), F(4), A(5),
			      F(5), A(6), F(6), A(7), F(7), F(8), F(9), (long double)size / 3,
			      (int)size),
	      size);
	given(many_take_struct(size, big, A(1), A(2), A(3), A(4), A(5), A(6), aligned), size);
	given(many_take_variadic(size, V(0), V(3), V(6), V(9), V(12), V(15), V(18), V(21), V(24),
				 V(27)),
	      size);
}

TARGET_FRAME static void large_of(size_t size)
{
	volatile char frame[LARGE_FRAME];
	void *block;

	frame[0] = 1;
	frame[LARGE_FRAME - 1] = 2;
	block = many_take_12(size, A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10),
			     A(11));
	check(frame[0] == 1 && frame[LARGE_FRAME - 1] == 2, __func__, 0);
	given(block, size);
}

/* No allocator. */
int many_number(size_t size);
TARGET_FRAME int many_number(size_t size)
{
	return (int)size % 1000 + 1;
}

int many_zero(size_t size);
TARGET_FRAME int many_zero(size_t size)
{
	return size > 1u << 30;
}

static void *rounds(void *count)
{
	for (unsigned long i = 0; i < (unsigned long)(uintptr_t)count; i++)
		round_of(1 + i % 500);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	unsigned long number;
	char line[64];

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "run", &number)) {
			rounds((void *)(uintptr_t)number);
			target_say("ran");
		} else if (target_word(line, "threads", &number)) {
			for (unsigned i = 0; i < THREADS; i++)
				if (pthread_create(&threads[i], NULL, rounds,
						   (void *)(uintptr_t)number))
					target_broken("no thread");
			for (unsigned i = 0; i < THREADS; i++)
				pthread_join(threads[i], NULL);
			target_say("joined");
		} else if (target_word(line, "large", &number)) {
			for (unsigned long i = 0; i < number; i++)
				large_of(1 + i % 500);
			target_say("done");
		} else if (target_word(line, "numbers", &number)) {
			for (unsigned long i = 0; i < number; i++)
				check(many_number(i) > 0 && !many_zero(i), "many_number", 0);
			target_say("numbered");
		} else if (target_word(line, "count", &number)) {
			target_say("{\"allocations\":%lu,\"frees\":%lu,\"allocated_bytes\":%lu}",
				   allocations, frees, allocated_bytes);
		} else {
			break;
		}
	}
	return 0;
}
