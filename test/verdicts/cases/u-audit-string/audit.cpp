// A bank's front end that keeps the day's audit trail in one string and one vector.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

struct Mark {
	unsigned long offset;
	unsigned long account;
	double amount;
};

class AuditTrail {
public:
	[[gnu::noinline]] void append(unsigned long account, double amount)
	{
		marks_.push_back(Mark{trail_.size(), account, amount});
		trail_ += "account " + std::to_string(account) + " amount " + std::to_string(amount) + " ";
		trail_.append(200, '.');
		trail_ += '\n';
	}
	size_t bytes() const { return trail_.size(); }
	size_t capacity() const { return trail_.capacity() + marks_.capacity() * sizeof(Mark); }

private:
	std::string trail_;
	std::vector<Mark> marks_;
};

int main()
{
	AuditTrail trail;
	auto next = std::chrono::steady_clock::now();

	for (unsigned i = 0; i < 11000; i++)
		trail.append(i, i * 0.01);
	std::cout << "ready" << std::endl;
	for (unsigned long tick = 0;; tick++) {
		for (unsigned i = 0; i < 100; i++)
			trail.append(tick * 100 + i, i * 0.5);
		if (tick % 100 == 0)
			std::fprintf(stderr, "trail %zu bytes, capacity %zu\n", trail.bytes(), trail.capacity());
		next += std::chrono::milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
