// Tokens that live for four seconds. Their number is steady once the first ones have expired.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <deque>
#include <string>
#include <unordered_map>

struct Token {
	std::string subject, scopes;
	long expires_ms;
};

class TokenCache
{
      public:
	[[gnu::noinline]] void issue(unsigned number, long now_ms)
	{
		std::string id = "token-" + std::to_string(number) + "-of-the-gateway";
		order.push_back(id);
		tokens[id] = {std::string(400, 's'), std::string(300, 'r'), now_ms + 4000};
	}
	[[gnu::noinline]] void expire(long now_ms)
	{
		while (!order.empty()) {
			auto found = tokens.find(order.front());
			if (found->second.expires_ms > now_ms)
				return;
			tokens.erase(found);
			order.pop_front();
		}
	}
	std::size_t size() const
	{
		return tokens.size();
	}

      private:
	std::unordered_map<std::string, Token> tokens;
	std::deque<std::string> order;
};

static volatile std::sig_atomic_t ended;

static void end(int)
{
	ended = 1;
}

int main()
{
	TokenCache cache;
	timespec next;
	std::size_t least = ~0ul, most = 0;

	std::signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		long now_ms = number / 2; // a token each 0.5 ms of the program's own time
		cache.issue(number, now_ms);
		cache.expire(now_ms);
		if (number == 10000) {
			std::puts("ready");
			std::fflush(stdout);
		}
		if (number > 10000) {
			least = std::min(least, cache.size());
			most = std::max(most, cache.size());
		}
		if (number % 4)
			continue;
		next.tv_nsec += 2000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
	}
	std::fprintf(stderr, "%zu to %zu tokens\n", least, most);
}
