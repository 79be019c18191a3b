// leak: C++ churn of maps and strings, checked, beside a leak in a function with a known name.
//
// Commands: "go" and "hold" start and stop the churn thread, "amble" starts it with a rest of a
// millisecond in each round; "leak N" makes Registry::remember keep
// N sessions; "descend N" makes it keep one below N calls of a function by itself, "parse N" of two
// by each other; "count" says what was kept, as JSON; "quit" ends with 0 if every sum was right.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

constexpr unsigned kSessionBytes = 3000;

struct Session {
	char payload[kSessionBytes];
};

class Registry
{
      public:
	__attribute__((noinline)) void remember(unsigned number);
	__attribute__((noinline)) unsigned descend(unsigned levels);
	std::size_t kept() const
	{
		return sessions_.size();
	}
	~Registry()
	{
		for (Session *session : sessions_)
			delete session;
	}

      private:
	std::vector<Session *> sessions_;
};

void Registry::remember(unsigned number)
{
	auto *session = new Session;
	std::memset(session->payload, static_cast<int>(number), sizeof(session->payload));
	sessions_.push_back(session);
}

// Each level does something after the call, so that none is left out of the stack.
unsigned Registry::descend(unsigned levels)
{
	if (levels == 0) {
		remember(0);
		return 1;
	}
	volatile unsigned below = descend(levels - 1);
	return below + 1;
}

// The same of two functions that call each other.
unsigned parse_item(Registry &registry, unsigned levels);

__attribute__((noinline)) unsigned parse_list(Registry &registry, unsigned levels)
{
	volatile unsigned below = parse_item(registry, levels);
	return below + 1;
}

__attribute__((noinline)) unsigned parse_item(Registry &registry, unsigned levels)
{
	if (levels == 0) {
		registry.remember(0);
		return 0;
	}
	volatile unsigned below = parse_list(registry, levels - 1);
	return below;
}

std::atomic<bool> running{false}, over{false}, ambling{false};
std::atomic<unsigned long> rounds{0};

[[noreturn]] void broken(const char *what)
{
	std::fprintf(stderr, "broken: %s\n", what);
	std::_Exit(70);
}

__attribute__((noinline)) unsigned long churn_round(unsigned seed)
{
	std::map<std::string, std::vector<int>> words;
	for (unsigned i = 0; i < 200; i++)
		words["a rather long key, so that it is on the heap " +
		      std::to_string((i * 7919 + seed) % 1000)]
			.push_back(static_cast<int>(i));
	unsigned long sum = 0;
	for (const auto &[word, numbers] : words)
		for (int number : numbers)
			sum += static_cast<unsigned long>(number) + word.size() / 40;
	return sum;
}

// Exceptions unwind through frames whose allocations are hooked.
__attribute__((noinline)) int thrown_round(unsigned seed)
{
	try {
		auto held = std::make_unique<std::string>(200, 'x');
		if (seed % 2 == 0)
			throw std::runtime_error(*held);
		return static_cast<int>(held->size());
	} catch (const std::runtime_error &error) {
		return static_cast<int>(std::strlen(error.what()));
	}
}

void churn()
{
	for (unsigned seed = 0; !over; seed++) {
		if (!running) {
			usleep(1000);
			continue;
		}
		if (churn_round(seed) != 200 * 199 / 2 + 200)
			broken("a map lost a word");
		if (thrown_round(seed) != 200)
			broken("an exception lost its words");
		rounds++;
		if (ambling)
			usleep(1000);
	}
}

} // namespace

int main()
{
	Registry registry;
	std::thread worker(churn);
	char line[128];

	// Not buffered by an allocation of stdio's in the middle of a capture.
	static char out[4096], in[4096];
	std::setvbuf(stdout, out, _IOLBF, sizeof(out));
	std::setvbuf(stdin, in, _IOLBF, sizeof(in));
	std::printf("ready %d\n", getpid());
	while (std::fgets(line, sizeof(line), stdin)) {
		unsigned number;
		if (!std::strcmp(line, "go\n") || !std::strcmp(line, "amble\n")) {
			ambling = line[0] == 'a';
			running = true;
			std::puts("going");
		} else if (!std::strcmp(line, "hold\n")) {
			running = false;
			std::puts("held");
		} else if (std::sscanf(line, "leak %u", &number) == 1) {
			for (unsigned i = 0; i < number; i++)
				registry.remember(i);
			std::puts("leaked");
		} else if (std::sscanf(line, "descend %u", &number) == 1) {
			if (registry.descend(number) != number + 1)
				broken("a call did not return");
			std::puts("descended");
		} else if (std::sscanf(line, "parse %u", &number) == 1) {
			if (parse_list(registry, number) != number + 1)
				broken("a call did not return");
			std::puts("parsed");
		} else if (!std::strcmp(line, "count\n")) {
			std::printf("{\"kept\":%zu,\"session_bytes\":%u,\"rounds\":%lu}\n",
				    registry.kept(), kSessionBytes, rounds.load());
		} else if (!std::strcmp(line, "quit\n")) {
			break;
		} else {
			broken("unknown command");
		}
	}
	over = true;
	worker.join();
	return 0;
}
