// An exporter: collects rows for three seconds, writes them, and drops them all.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

using Row = std::map<std::string, std::string>;

class Exporter {
public:
	[[gnu::noinline]] void collect(unsigned long id)
	{
		Row row;

		row["id"] = std::to_string(id);
		row["customer"] = std::string(60, 'c');
		row["comment"] = std::string(900, 't');
		rows_.push_back(std::move(row));
	}
	[[gnu::noinline]] void flush()
	{
		std::string out;

		for (const auto &row : rows_)
			for (const auto &field : row)
				out += field.second.substr(0, 4);
		written_ += out.size();
		rows_.clear();
		rows_.shrink_to_fit();
		batches_++;
	}
	size_t rows() const { return rows_.size(); }
	unsigned batches() const { return batches_; }

private:
	std::vector<Row> rows_;
	size_t written_ = 0;
	unsigned batches_ = 0;
};

int main()
{
	Exporter exporter;
	auto next = std::chrono::steady_clock::now();

	for (unsigned long tick = 0;; tick++) {
		for (unsigned i = 0; i < 120; i++)
			exporter.collect(tick * 120 + i);
		if (tick % 150 == 149)
			exporter.flush();
		if (tick == 310)
			std::cout << "ready" << std::endl;
		if (tick % 50 == 0)
			std::fprintf(stderr, "tick %lu: %zu rows, %u batches\n", tick, exporter.rows(), exporter.batches());
		next += std::chrono::milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
