// An order book on jemalloc, with templates. Cancelled orders leave the book, their notes do not leave the ledger.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct Order {
	unsigned long id;
	double price;
	std::string client;
};

struct Note {
	unsigned long order;
	std::string text;
};

template <typename Key, typename Value> class Ledger {
public:
	[[gnu::noinline]] void record(const Key &key, std::unique_ptr<Value> value) { entries_[key].push_back(std::move(value)); }
	size_t keys() const { return entries_.size(); }

private:
	std::map<Key, std::vector<std::unique_ptr<Value>>> entries_;
};

class Book {
public:
	[[gnu::noinline]] void place(unsigned long id)
	{
		orders_.push_back(Order{id, 100.0 + id % 50, std::string(80, 'c')});
		if (orders_.size() > 2000)
			orders_.pop_front();
	}
	[[gnu::noinline]] void cancel(unsigned long id)
	{
		auto note = std::make_unique<Note>(Note{id, std::string(1500, 'n')});

		if (!orders_.empty())
			orders_.pop_front();
		ledger_.record(id % 97, std::move(note));
		cancelled_++;
	}
	unsigned long cancelled() const { return cancelled_; }

private:
	std::list<Order> orders_;
	Ledger<unsigned long, Note> ledger_;
	unsigned long cancelled_ = 0;
};

int main()
{
	Book book;
	auto next = std::chrono::steady_clock::now();

	for (unsigned long id = 0; id < 4000; id++)
		book.place(id);
	std::cout << "ready" << std::endl;
	for (unsigned long tick = 0;; tick++) {
		for (unsigned i = 0; i < 10; i++)
			book.place(tick * 10 + i);
		for (unsigned i = 0; i < 2; i++)
			book.cancel(tick * 2 + i);
		if (tick % 100 == 0)
			std::fprintf(stderr, "%lu cancelled\n", book.cancelled());
		next += std::chrono::milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
