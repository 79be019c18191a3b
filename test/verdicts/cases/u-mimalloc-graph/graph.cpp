// A planner on mimalloc. Observers and the graph that they watch hold each other by shared_ptr.
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

class Graph;

class Observer {
public:
	virtual ~Observer() = default;
	virtual void changed(unsigned node) = 0;
};

class Graph {
public:
	void watch(std::shared_ptr<Observer> observer) { observers_.push_back(std::move(observer)); }
	[[gnu::noinline]] void build(unsigned nodes)
	{
		for (unsigned i = 0; i < nodes; i++)
			costs_.push_back(i * 0.5);
		for (const auto &observer : observers_)
			observer->changed(nodes);
	}
	double cost() const { return costs_.back(); }

private:
	std::vector<std::shared_ptr<Observer>> observers_;
	std::vector<double> costs_;
};

class RouteObserver : public Observer {
public:
	explicit RouteObserver(std::shared_ptr<Graph> graph) : graph_(std::move(graph)) { live++; }
	~RouteObserver() override { live--; }
	void changed(unsigned node) override { label_ = std::string(200, static_cast<char>('a' + node % 26)); }
	static unsigned long live;

private:
	std::shared_ptr<Graph> graph_; // should be weak
	std::string label_;
};

unsigned long RouteObserver::live;

[[gnu::noinline]] static double planRoute(unsigned id)
{
	auto graph = std::make_shared<Graph>();

	graph->watch(std::make_shared<RouteObserver>(graph));
	graph->build(200 + id % 50);
	return graph->cost();
}

int main()
{
	double total = 0;
	auto next = std::chrono::steady_clock::now();

	std::cout << "ready" << std::endl;
	for (unsigned id = 0;; id++) {
		for (unsigned i = 0; i < 2; i++)
			total += planRoute(id * 2 + i);
		if (id % 100 == 0)
			std::fprintf(stderr, "%u plans, %lu observers live (%g)\n", id * 2 + 2, RouteObserver::live, total);
		next += std::chrono::milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
