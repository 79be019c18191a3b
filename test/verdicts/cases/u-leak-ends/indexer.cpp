// An indexer. The crawl that it serves ends five seconds into the capture; queries go on.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

struct Posting {
	unsigned document;
	std::vector<unsigned> positions;
};

class Index {
public:
	[[gnu::noinline]] void addDocument(unsigned id)
	{
		auto *posting = new Posting{id, {}};

		posting->positions.reserve(500);
		for (unsigned i = 0; i < 500; i++)
			posting->positions.push_back(i * id);
		last_ = posting; // the one before is lost
		documents_++;
	}
	[[gnu::noinline]] std::string query(unsigned id) const
	{
		std::string answer;

		for (unsigned i = 0; i < 50; i++)
			answer += "document " + std::to_string(last_->positions[(i + id) % 500]) + "\n";
		return answer;
	}
	unsigned long documents() const { return documents_; }

private:
	Posting *last_ = nullptr;
	unsigned long documents_ = 0;
};

int main()
{
	using namespace std::chrono;
	Index index;
	std::string line;
	size_t answered = 0;

	index.addDocument(1);
	std::cout << "ready" << std::endl;
	std::getline(std::cin, line);
	auto next = steady_clock::now();
	for (unsigned tick = 0;; tick++) {
		if (tick < 250)
			for (unsigned i = 0; i < 5; i++)
				index.addDocument(tick * 5 + i);
		for (unsigned i = 0; i < 10; i++)
			answered += index.query(i).size();
		if (tick % 100 == 0)
			std::fprintf(stderr, "tick %u: %lu documents, %zu bytes answered\n", tick, index.documents(), answered);
		next += milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
