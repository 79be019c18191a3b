// What heaptrack records of a program in C++: see README.md.
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" const char *__lsan_default_suppressions()
{
	return "leak:suppressed\nleak:^Cache*\n";
}

template <typename Key, typename Value> struct Cache {
	std::map<Key, Value> entries;
	__attribute__((noinline)) void add(Key key, Value value) { entries[key] = std::move(value); }
};

__attribute__((noinline)) char *suppressed()
{
	return new char[333];
}

static std::vector<std::unique_ptr<std::string>> lines;
static char *volatile leaked;

int main()
{
	Cache<int, std::string> cache;

	for (int i = 0; i < 50; i++) {
		cache.add(i, std::string(30 + i, 'x'));
		lines.push_back(std::make_unique<std::string>(100, 'y'));
		if (i % 10 == 9)
			usleep(12000);
	}
	leaked = suppressed();
	leaked = new char[77];
	_exit(0);
}
