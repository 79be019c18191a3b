// Metrics in memory: each series keeps all its samples in a vector, and nobody drops the old ones.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>
#include <unordered_map>
#include <vector>

struct Sample {
	double value;
	std::time_t at;
};

template <typename Point> class Series
{
      public:
	void add(const Point &point)
	{
		points.push_back(point);
	}
	std::size_t size() const
	{
		return points.size();
	}

      private:
	std::vector<Point> points;
};

class Store
{
      public:
	[[gnu::noinline]] void record(const std::string &name, double value)
	{
		series[name].add({value, std::time(nullptr)});
		samples++;
	}
	std::size_t samples = 0;

      private:
	std::unordered_map<std::string, Series<Sample>> series;
};

[[gnu::noinline]] static double scrape(Store &store, unsigned round)
{
	double sum = 0;

	for (unsigned target = 0; target < 300; target++) {
		if (round % (1 + target % 5)) // some are scraped less often
			continue;
		std::string name =
			"http_request_duration_seconds{target=\"" + std::to_string(target) + "\"}";
		store.record(name, round * 0.25 + target);
		sum += name.size();
	}
	return sum;
}

static volatile std::sig_atomic_t ended;

static void end(int)
{
	ended = 1;
}

int main()
{
	Store store;
	timespec next;
	volatile double sink = 0;

	std::signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned round = 0; !ended; round++) {
		sink = sink + scrape(store, round);
		if (round == 1000) {
			std::puts("ready");
			std::fflush(stdout);
		}
		next.tv_nsec += 2000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
	}
	std::fprintf(stderr, "%zu samples of %zu bytes\n", store.samples, sizeof(Sample));
}
