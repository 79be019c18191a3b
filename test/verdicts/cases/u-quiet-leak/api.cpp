// An API server with a full cache of 40 MiB that turns over fast, and one handler that loses a small thing.
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

class PageCache {
public:
	[[gnu::noinline]] void put(unsigned long key, std::string page)
	{
		pages_.emplace_front(key, std::move(page));
		index_[key] = pages_.begin();
		if (pages_.size() > 1000) {
			index_.erase(pages_.back().first);
			pages_.pop_back();
		}
	}
	size_t size() const { return pages_.size(); }

private:
	std::list<std::pair<unsigned long, std::string>> pages_;
	std::unordered_map<unsigned long, std::list<std::pair<unsigned long, std::string>>::iterator> index_;
};

class Handler {
public:
	virtual ~Handler() = default;
	virtual void handle(unsigned long id) = 0;
};

class PageHandler : public Handler {
public:
	explicit PageHandler(PageCache &cache) : cache_(cache) {}
	void handle(unsigned long id) override { cache_.put(id, std::string(30000 + id * 7919 % 20000, 'p')); }

private:
	PageCache &cache_;
};

struct Trace {
	unsigned long id;
	char spans[700];
};

class TraceHandler : public Handler {
public:
	void handle(unsigned long id) override
	{
		auto trace = std::make_unique<Trace>();

		trace->id = id;
		std::snprintf(trace->spans, sizeof(trace->spans), "span %lu", id);
		if (id % 3 == 0)
			trace.release(); // the exporter was to take it
		traces++;
	}
	unsigned long traces = 0;
};

int main()
{
	PageCache cache;
	auto *tracer = new TraceHandler;
	std::map<std::string, std::unique_ptr<Handler>> routes;
	std::function<void(const std::string &, unsigned long)> dispatch = [&](const std::string &path, unsigned long id) {
		routes.at(path)->handle(id);
	};
	auto next = std::chrono::steady_clock::now();

	routes["/page"] = std::make_unique<PageHandler>(cache);
	routes["/trace"].reset(tracer);
	for (unsigned long id = 0; id < 1500; id++)
		dispatch("/page", id);
	std::cout << "ready" << std::endl;
	for (unsigned long tick = 0;; tick++) {
		for (unsigned long i = 0; i < 12; i++)
			dispatch("/page", tick * 12 + i);
		for (unsigned long i = 0; i < 3; i++)
			dispatch("/trace", tick * 3 + i);
		if (tick % 100 == 0)
			std::fprintf(stderr, "%zu pages cached, %lu traces, %lu bytes lost\n", cache.size(), tracer->traces, tracer->traces / 3 * sizeof(Trace));
		next += std::chrono::milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
