// A report server on tcmalloc: a report of 90 MiB was made and dropped before; its pages stay with the allocator.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct Cell {
	std::string text;
	double value;
};

[[gnu::noinline]] static size_t makeReport(size_t rows)
{
	std::vector<std::unique_ptr<Cell>> cells;

	for (size_t i = 0; i < rows; i++)
		cells.push_back(std::make_unique<Cell>(Cell{std::string(400, static_cast<char>('a' + i % 26)), i * 0.5}));
	return cells.size();
}

[[gnu::noinline]] static size_t answerPing(size_t id)
{
	std::string answer(100 + id % 50, '.');

	return answer.size();
}

int main()
{
	size_t cells = makeReport(200000), sent = 0;
	auto next = std::chrono::steady_clock::now();

	std::cout << "ready" << std::endl;
	for (size_t tick = 0;; tick++) {
		sent += answerPing(tick);
		if (tick % 100 == 0)
			std::fprintf(stderr, "%zu cells were made and freed, %zu bytes sent\n", cells, sent);
		next += std::chrono::milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
