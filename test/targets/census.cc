// census: a heap whose blocks it can count: objects of two classes, strings, blocks that were never touched, and free
// ones.
//
// "make": of each some; "drop": half of each is freed, more than the caches of threads hold; "map": three blocks with
// mappings of their own; "churn": from now on a thread allocates and frees all the time; "info": mallinfo2(3) as JSON;
// "quit".
#include <malloc.h>
#include <pthread.h>

#include <cstring>

extern "C" {
#include "test/targets/target.h"
}

namespace census
{
struct Alpha {
	virtual ~Alpha() = default;
	virtual int value() const
	{
		return number;
	}
	long number = 1;
	char more[40] = {};
};

// Of a terminal's line its name would leave nothing.
struct NumberWithANameThatIsLongerThanTheColumnOfNames {
	long number;
	explicit operator int() const
	{
		return static_cast<int>(number);
	}
};

template <typename T> struct Beta : Alpha {
	int value() const override
	{
		return static_cast<int>(wide);
	}
	T wide = {2};
};
} // namespace census

enum { ALPHAS = 1000, BETAS = 400, STRINGS = 600, UNTOUCHED = 10, DATA = 500 };

static census::Alpha *alphas[ALPHAS], *betas[BETAS];
static char *strings[STRINGS], *data[DATA];
static void *untouched[UNTOUCHED], *mapped[3];

static void make()
{
	for (auto &alpha : alphas)
		alpha = new census::Alpha;
	for (auto &beta : betas)
		beta = new census::Beta<census::NumberWithANameThatIsLongerThanTheColumnOfNames>;
	for (int i = 0; i < STRINGS; i++) {
		char text[200];

		// Four letters at least, and some of all sizes.
		memset(text, 'a' + i % 26, sizeof(text));
		text[4 + i % 190] = '\0';
		strings[i] = strdup(text);
	}
	for (auto &block : data) {
		block = static_cast<char *>(malloc(64));
		if (!block)
			target_broken("no memory");
		memset(block, 0xff, 64);
	}
	// The last: they come from the end of the heap.
	for (auto &block : untouched)
		block = malloc(100000);
}

static void drop()
{
	for (int i = 0; i < ALPHAS; i += 2)
		delete alphas[i];
	for (int i = 0; i < BETAS; i += 2)
		delete betas[i];
	for (int i = 0; i < STRINGS; i += 2)
		free(strings[i]);
	for (int i = 0; i < DATA; i += 2)
		free(data[i]);
}

static void map()
{
	for (auto &block : mapped) {
		block = malloc(1 << 20);
		if (!block)
			target_broken("no memory");
		memset(block, 0xff, 1 << 20);
	}
}

static void *churn(void *)
{
	uint64_t seed = 1;
	char *blocks[1000] = {};

	for (;;) {
		size_t i = target_random(&seed) % 1000;

		free(blocks[i]);
		blocks[i] = static_cast<char *>(malloc(16 + target_random(&seed) % 3000));
		if (!blocks[i])
			target_broken("no memory");
		blocks[i][0] = 1;
	}
	return nullptr;
}

static void info()
{
	struct mallinfo2 now = mallinfo2();

	target_say("info {\"arena\":%zu,\"fordblks\":%zu}", now.arena, now.fordblks);
}

int main()
{
	char line[100];
	pthread_t thread;

	target_say("ready %d", static_cast<int>(getpid()));
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "quit"))
			_exit(0);
		if (!strcmp(line, "info")) {
			info();
			continue;
		}
		if (!strcmp(line, "make"))
			make();
		else if (!strcmp(line, "drop"))
			drop();
		else if (!strcmp(line, "map"))
			map();
		else if (!strcmp(line, "churn") && pthread_create(&thread, nullptr, churn, nullptr))
			target_broken("no thread");
		target_say("done");
	}
	_exit(0);
}
