// newer: a C++ program that replaces operator new and delete, by blocks with a head of its own from
// malloc, and keeps books of them.
//
// Commands: "run N": vectors, strings and maps, N times; "leak N" keeps N blocks; "throw N" asks for
// more than there is, N times, and catches that; "count": what the operators did since the start, as
// JSON; "quit".
//
// newer-short (SHORT_JUMPS): some of its operators are jumps to others, and too short for hooks.
// newer-middle (MIDDLE): one of them jumps to the second instruction of another.
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "test/targets/target.h"

static struct {
	unsigned long allocations, frees, allocated_bytes, kept;
} counts;

struct head {
	size_t mark, offset;
};

enum { MARK = 0x5a5a };

/* As if they stood in a file of their own, as such operators mostly do: calls of them are calls. */
#define OWN_FILE __attribute__((noinline))

extern "C" TARGET_FRAME void *take(size_t bytes, size_t alignment);
void *take(size_t bytes, size_t alignment)
{
	auto *raw = static_cast<char *>(malloc(bytes + alignment + sizeof(head)));

	if (!raw)
		throw std::bad_alloc();
	auto at = reinterpret_cast<uintptr_t>(raw) + sizeof(head);
	at = (at + alignment - 1) / alignment * alignment;
	auto *block = reinterpret_cast<char *>(at);
	reinterpret_cast<head *>(block)[-1] = {MARK, static_cast<size_t>(block - raw)};
	counts.allocations++;
	counts.allocated_bytes += bytes;
	return block;
}

extern "C" TARGET_FRAME void give_back(void *block);
void give_back(void *block)
{
	if (!block)
		return;
	head *own = static_cast<head *>(block) - 1;
	if (own->mark != MARK)
		target_broken("a block that operator new did not make");
	own->mark = 0;
	counts.frees++;
	free(static_cast<char *>(block) - own->offset);
}

#if defined(SHORT_JUMPS) || defined(MIDDLE)
#define OPERATOR(name, body)                                                                       \
	".globl " name "\n.type " name ", @function\n" name ":\n" body "\n.size " name ", . - " name \
	"\n"
#endif

#ifdef MIDDLE
/* One of them goes on behind the other's first instruction. */
__asm__(".text\n" OPERATOR("_Znam", "push %rbx\nmov %rdi, %rdi\njmp 1f")
		OPERATOR("_Znwm", "push %rbx\n1: mov $16, %esi\ncall take@plt\npop %rbx\nret"));
#else
OWN_FILE void *operator new(size_t bytes)
{
	return take(bytes, 16);
}
OWN_FILE void *operator new[](size_t bytes)
{
	return take(bytes, 16);
}
#endif
OWN_FILE void *operator new(size_t bytes, std::align_val_t alignment)
{
	return take(bytes, static_cast<size_t>(alignment));
}
#ifdef SHORT_JUMPS
/* As an optimizer of whole programs leaves them: a jump each, of two bytes where that is enough. */
__asm__(".text\n" OPERATOR("_ZdlPv", "1: jmp give_back@plt") OPERATOR("_ZdlPvm", "2: jmp 1b")
		OPERATOR("_ZdaPv", "3: jmp 2b") OPERATOR("_ZdaPvm", "endbr64\njmp 3b"));
#else
OWN_FILE void operator delete(void *block) noexcept
{
	give_back(block);
}
OWN_FILE void operator delete(void *block, size_t) noexcept
{
	give_back(block);
}
OWN_FILE void operator delete[](void *block) noexcept
{
	give_back(block);
}
OWN_FILE void operator delete[](void *block, size_t) noexcept
{
	give_back(block);
}
#endif
OWN_FILE void operator delete(void *block, std::align_val_t) noexcept
{
	give_back(block);
}
OWN_FILE void operator delete(void *block, size_t, std::align_val_t) noexcept
{
	give_back(block);
}

struct alignas(64) line {
	char bytes[64];
};

TARGET_FRAME static void keep_forever()
{
	auto *block = new char[5000];

	memset(block, 1, 5000);
	counts.kept++;
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void work(unsigned long n)
{
	std::map<std::string, std::vector<unsigned long>> words;
	auto one = std::make_unique<line>();
	unsigned long sum = 0;

	for (unsigned long i = 0; i < 50; i++)
		words["a rather long key number " + std::to_string((i * 7919 + n) % 23)].push_back(i);
	for (const auto &word : words)
		for (unsigned long i : word.second)
			sum += i;
	if (sum != 50 * 49 / 2 || reinterpret_cast<uintptr_t>(one.get()) % 64)
		target_broken("a sum or an alignment is wrong");
}

TARGET_FRAME static void ask_for_too_much()
{
	static void *volatile block;
	static volatile size_t bytes = SIZE_MAX / 4;

	try {
		block = operator new(bytes);
	} catch (const std::bad_alloc &) {
		return;
	}
	target_broken("so much room was there: %p", block);
}

int main()
{
	char text[64];
	unsigned long number;

	target_say("ready %d", getpid());
	while (target_listen(text, sizeof(text))) {
		if (target_word(text, "run", &number)) {
			for (unsigned long i = 0; i < number; i++)
				work(i);
			target_say("ran");
		} else if (target_word(text, "leak", &number)) {
			for (unsigned long i = 0; i < number; i++)
				keep_forever();
			target_say("leaked");
		} else if (target_word(text, "throw", &number)) {
			for (unsigned long i = 0; i < number; i++)
				ask_for_too_much();
			target_say("thrown");
		} else if (target_word(text, "count", &number)) {
			target_say("{\"allocations\":%lu,\"frees\":%lu,\"allocated_bytes\":%lu,"
				   "\"kept\":%lu}",
				   counts.allocations, counts.frees, counts.allocated_bytes,
				   counts.kept);
		} else {
			break;
		}
	}
	return 0;
}
