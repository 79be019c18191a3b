// held: blocks of glibc's malloc whose holders are known.
//
//	registry, a pointer   -> Registry -> array -> 100 of Session, each -> 200 B
//	list, a pointer       -> 50 of 88 B, a list
//	table, an array of 8  -> the first Session at [3], a block of 400 B at [5] and [6]
//	counter(), a static   -> 328 B
//	inside                -> the midst of 1000 B
//	main's local variable -> 712 B; one of a second thread's -> 824 B; its thread-local one ->
// 904 B 	nothing               -> 1512 B
//
// "where NAME" answers the address of a block; "quit".
#include <malloc.h>
#include <pthread.h>

#include <cstring>

extern "C" {
#include "test/targets/target.h"
}

namespace held
{
struct Session {
	virtual ~Session() = default;
	char *buffer = nullptr;
	long more[5] = {};
};

struct Registry {
	virtual ~Registry() = default;
	long count = 0;
	Session **sessions = nullptr;
};
} // namespace held

enum { SESSIONS = 100, NODES = 50 };

struct node {
	node *next;
	char rest[80];
};

static held::Registry *registry;
static node *list;
static void *table[8];
static char *inside;
static thread_local void *volatile local;
static volatile uintptr_t lost, of_thread, of_local; // kept as their complements: no pointers
static volatile bool stands;

static void *take(size_t bytes)
{
	void *block = malloc(bytes);

	if (!block)
		target_broken("no memory");
	memset(block, 0, bytes);
	return block;
}

TARGET_FRAME static void **counter()
{
	static void *kept;

	return &kept;
}

TARGET_FRAME static void make()
{
	registry = new held::Registry;
	registry->sessions = static_cast<held::Session **>(take(SESSIONS * sizeof(void *)));
	registry->count = SESSIONS;
	for (int i = 0; i < SESSIONS; i++) {
		registry->sessions[i] = new held::Session;
		registry->sessions[i]->buffer = static_cast<char *>(take(200));
	}
	for (int i = 0; i < NODES; i++) {
		node *one = static_cast<node *>(take(sizeof(*one)));

		one->next = list;
		list = one;
	}
	table[3] = registry->sessions[0];
	table[5] = table[6] = take(400);
	*counter() = take(328);
	inside = static_cast<char *>(take(1000)) + 504;
	lost = ~reinterpret_cast<uintptr_t>(take(1512));
	TARGET_KEEP_FRAME();
}

// Registers and the stack below forget them.
TARGET_FRAME static void scrub()
{
	volatile char below[32768];

	memset(const_cast<char *>(below), 0, sizeof(below));
	TARGET_KEEP_FRAME();
}

static void *stand(void *)
{
	void *volatile mine = take(824);

	local = take(904);
	of_thread = ~reinterpret_cast<uintptr_t>(mine);
	of_local = ~reinterpret_cast<uintptr_t>(local);
	scrub();
	stands = true;
	while (mine)
		pause();
	return nullptr;
}

static uintptr_t where(const char *name, void *of_main)
{
	node *last = list;

	while (last->next)
		last = last->next;
	const struct {
		const char *name;
		uintptr_t address;
	} blocks[] = {
		{"registry", reinterpret_cast<uintptr_t>(registry)},
		{"first", registry ? reinterpret_cast<uintptr_t>(registry->sessions[0]) : 0},
		{"second", registry ? reinterpret_cast<uintptr_t>(registry->sessions[1]) : 0},
		{"buffer",
		 registry ? reinterpret_cast<uintptr_t>(registry->sessions[1]->buffer) : 0},
		{"last", reinterpret_cast<uintptr_t>(last)},
		{"both", reinterpret_cast<uintptr_t>(table[5])},
		{"static", reinterpret_cast<uintptr_t>(*counter())},
		{"inside", reinterpret_cast<uintptr_t>(inside - 504)},
		{"main", reinterpret_cast<uintptr_t>(of_main)},
		{"thread", ~of_thread},
		{"local", ~of_local},
		{"lost", ~lost},
		{"table", reinterpret_cast<uintptr_t>(table)},
	};

	for (const auto &block : blocks)
		if (!strcmp(name, block.name))
			return block.address;
	return 0;
}

// What is written to a test is left in no buffer but this one's.
TARGET_FRAME static void answer(const char *name, void *of_main)
{
	target_say("0x%lx", static_cast<unsigned long>(where(name, of_main)));
	TARGET_KEEP_FRAME();
}

int main()
{
	void *volatile mine = take(712);
	pthread_t thread;
	char line[64];

	make();
	scrub();
	if (pthread_create(&thread, nullptr, stand, nullptr))
		target_broken("no thread");
	while (!stands)
		usleep(1000);
	target_say("ready %d", static_cast<int>(getpid()));
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (strncmp(line, "where ", 6) != 0)
			target_broken("unknown command '%s'", line);
		answer(line + 6, mine);
		scrub();
	}
	_exit(mine == nullptr);
}
