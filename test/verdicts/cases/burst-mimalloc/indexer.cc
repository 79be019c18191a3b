// Serves from an index, on mimalloc. Four seconds into the capture it builds the index anew: 90 MiB
// come and go.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <vector>

struct Posting {
	std::string term;
	std::vector<unsigned> documents;
};

static std::size_t temporary;

[[gnu::noinline]] static std::size_t rebuild_index(std::vector<std::unique_ptr<Posting>> &work,
						   unsigned step)
{
	for (unsigned i = 0; i < 400; i++) {
		auto posting = std::make_unique<Posting>();
		posting->term =
			"term-" + std::to_string(step) + "-" + std::to_string(i) + "-of-the-index";
		posting->documents.resize(64 + i % 64);
		temporary += posting->documents.size() * sizeof(unsigned);
		work.push_back(std::move(posting));
	}
	return work.size();
}

[[gnu::noinline]] static std::size_t search(const std::vector<std::string> &index, unsigned number)
{
	std::string query = "query number " + std::to_string(number) + " of a visitor of the site";
	std::vector<unsigned> hits;

	for (std::size_t i = 0; i < index.size(); i += 16)
		if (index[i].size() % 7 == number % 7)
			hits.push_back(static_cast<unsigned>(i));
	return hits.size() + query.size();
}

static bool is_captured()
{
	static bool captured;
	pollfd input{STDIN_FILENO, POLLIN, 0};
	char byte;

	if (!captured && poll(&input, 1, 0) > 0)
		captured = read(STDIN_FILENO, &byte, 1) == 1;
	return captured;
}

static volatile std::sig_atomic_t ended;

static void end(int)
{
	ended = 1;
}

static long rss_kib()
{
	char line[256];
	long kib = 0;
	FILE *status = std::fopen("/proc/self/status", "r");

	while (std::fgets(line, sizeof(line), status))
		if (std::sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	std::fclose(status);
	return kib;
}

int main()
{
	std::vector<std::string> index;
	std::vector<std::unique_ptr<Posting>> work;
	timespec next;
	unsigned since = 0;
	long before = 0, most = 0;
	volatile std::size_t sink = 0;

	for (int i = 0; i < 20000; i++)
		index.push_back("an entry of the index that is served: " + std::to_string(i));
	std::signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		sink = sink + search(index, number);
		since += is_captured();
		if (since == 390)
			before = rss_kib();
		if (since > 400 && since <= 700)
			sink = sink + rebuild_index(work, since);
		if (since == 700) {
			most = rss_kib();
			work.clear();
			work.shrink_to_fit();
		}
		if (number == 100) {
			std::puts("ready");
			std::fflush(stdout);
		}
		next.tv_nsec += 10000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
	}
	std::fprintf(
		stderr,
		"%zu bytes of documents came and went; RSS %ld KiB, %ld KiB, %ld KiB at the end\n",
		temporary, before, most, rss_kib());
}
