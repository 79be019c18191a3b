// A session store: a session lives four seconds after its last use.
#include <chrono>
#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

using Clock = std::chrono::steady_clock;

struct Session {
	std::string user;
	std::string cart;
	Clock::time_point until;
};

class SessionStore {
public:
	[[gnu::noinline]] void login(unsigned long id)
	{
		auto session = std::make_unique<Session>();

		session->user = "user-" + std::to_string(id) + "@shop.example.com";
		session->cart.assign(1500, 'c');
		session->until = Clock::now() + std::chrono::seconds(4);
		order_.push_back(id);
		byId_.emplace(id, std::move(session));
	}
	[[gnu::noinline]] void expire()
	{
		auto now = Clock::now();

		while (!order_.empty() && byId_.at(order_.front())->until < now) {
			byId_.erase(order_.front());
			order_.pop_front();
		}
	}
	size_t size() const { return byId_.size(); }

private:
	std::unordered_map<unsigned long, std::unique_ptr<Session>> byId_;
	std::deque<unsigned long> order_;
};

int main()
{
	SessionStore store;
	auto next = Clock::now();

	for (unsigned long tick = 0;; tick++) {
		for (unsigned i = 0; i < 20; i++)
			store.login(tick * 20 + i);
		store.expire();
		if (tick == 350)
			std::cout << "ready" << std::endl;
		if (tick % 100 == 0)
			std::fprintf(stderr, "tick %lu: %zu sessions\n", tick, store.size());
		next += std::chrono::milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
