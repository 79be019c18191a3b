// A gateway whose handlers open sessions in a registry. Uploads that fail leave theirs behind.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gateway
{

struct Session {
	std::string user;
	std::vector<unsigned char> window;
	explicit Session(std::string name) : user(std::move(name)), window(4000)
	{
	}
};

struct Request {
	unsigned number;
	std::string path;
};

template <typename Item> class Registry
{
      public:
	Item *open(const std::string &name)
	{
		auto *item = new Item(name);
		bytes += sizeof(Item) + item->window.size();
		items++;
		return item;
	}
	void close(Item *item)
	{
		bytes -= sizeof(Item) + item->window.size();
		items--;
		delete item;
	}
	std::size_t bytes = 0, items = 0;
};

class Handler
{
      public:
	virtual ~Handler() = default;
	virtual bool handle(const Request &request) = 0;
};

Registry<Session> registry;

class DownloadHandler : public Handler
{
      public:
	bool handle(const Request &request) override
	{
		Session *session = registry.open("download of " + request.path);
		std::map<std::string, std::string> headers{{"path", request.path},
							   {"etag", session->user}};
		registry.close(session);
		return headers.size() == 2;
	}
};

class UploadHandler : public Handler
{
      public:
	bool handle(const Request &request) override
	{
		Session *session = registry.open("upload to " + request.path);
		if (!store(*session, request))
			return false; // and the session stays
		registry.close(session);
		return true;
	}

      private:
	static bool store(Session &session, const Request &request)
	{
		std::vector<unsigned char> body(32768, static_cast<unsigned char>(request.number));
		std::memcpy(session.window.data(), body.data(), session.window.size());
		return request.number % 8 != 2;
	}
};

} // namespace gateway

static volatile std::sig_atomic_t ended;

static void end(int)
{
	ended = 1;
}

int main()
{
	using namespace gateway;
	std::vector<std::unique_ptr<Handler>> handlers;
	timespec next;
	std::size_t failed = 0;

	handlers.push_back(std::make_unique<DownloadHandler>());
	handlers.push_back(std::make_unique<UploadHandler>());
	std::signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		Request request{number, "/files/" + std::to_string(number % 1000) + "/content"};
		failed += !handlers[number / 2 % 2]->handle(request);
		if (number == 500) {
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
	std::fprintf(stderr, "%zu requests failed; %zu sessions of %zu bytes are open\n", failed,
		     registry.items, registry.bytes);
}
