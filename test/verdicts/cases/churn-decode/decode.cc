// Decodes messages with many short-lived objects. All of them die with their message.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Value {
	std::string text;
	std::map<std::string, std::unique_ptr<Value>> fields;
};

static std::size_t decoded;

[[gnu::noinline]] static std::unique_ptr<Value> decode_object(unsigned number, int depth)
{
	auto value = std::make_unique<Value>();
	value->text = "an object of the message with number " + std::to_string(number);
	for (int i = 0; depth && i < 6; i++)
		value->fields["field number " + std::to_string(i) + " of six"] =
			decode_object(number + i, depth - 1);
	return value;
}

[[gnu::noinline]] static std::size_t handle_message(unsigned number)
{
	auto value = decode_object(number, 2);
	std::vector<char> reply(3000 + number % 5000, 'r');

	decoded++;
	return value->fields.size() + reply.size();
}

static volatile std::sig_atomic_t ended;

static void end(int)
{
	ended = 1;
}

int main()
{
	timespec next;
	volatile std::size_t sink = 0;

	std::signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		sink = sink + handle_message(number);
		if (number == 500) {
			std::puts("ready");
			std::fflush(stdout);
		}
		next.tv_nsec += 1000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
	}
	std::fprintf(stderr, "%zu messages decoded, none kept\n", decoded);
}
