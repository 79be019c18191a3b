// A chat server with a thread for each of 250 clients; each has been deep in its stack once and waits.
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex lock;
static std::condition_variable changed;
static int ready;

[[gnu::noinline]] static int parseHandshake(int client)
{
	volatile char buffer[400 * 1024];
	int sum = 0;

	for (size_t i = 0; i < sizeof(buffer); i += 256)
		buffer[i] = static_cast<char>(client);
	for (size_t i = 0; i < sizeof(buffer); i += 4096)
		sum += buffer[i];
	return sum;
}

static void serve(int client)
{
	int answer = parseHandshake(client);
	std::unique_lock<std::mutex> held(lock);

	ready += answer == 12345678 ? 2 : 1;
	changed.notify_all();
	changed.wait(held, [] { return ready < 0; });
}

int main()
{
	std::vector<std::thread> clients;
	std::unique_lock<std::mutex> held(lock);

	for (int i = 0; i < 250; i++)
		clients.emplace_back(serve, i);
	changed.wait(held, [] { return ready == 250; });
	std::fprintf(stderr, "%d threads\n", ready);
	std::cout << "ready" << std::endl;
	changed.wait(held, [] { return ready < 0; });
}
