// A server of maps that builds a tree of tiles for each view. Children point back at their parents
// by shared_ptr.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

static std::size_t alive;

struct Tile : std::enable_shared_from_this<Tile> {
	std::string key;
	std::shared_ptr<Tile> parent; // a weak_ptr would do
	std::vector<std::shared_ptr<Tile>> children;
	std::vector<float> heights;

	explicit Tile(std::string name) : key(std::move(name)), heights(64)
	{
		alive++;
	}
	~Tile()
	{
		alive--;
	}
};

static std::shared_ptr<Tile> split(const std::shared_ptr<Tile> &parent, int depth)
{
	for (int quarter = 0; quarter < 4; quarter++) {
		auto child = std::make_shared<Tile>(parent->key + "/" + std::to_string(quarter));
		child->parent = parent;
		parent->children.push_back(child);
		if (depth > 1)
			split(child, depth - 1);
	}
	return parent;
}

[[gnu::noinline]] static float render_view(unsigned number)
{
	auto root = split(std::make_shared<Tile>("view " + std::to_string(number)), 2);
	std::vector<float> canvas(40000, 1.0f); // freed with this call
	float sum = canvas[number % canvas.size()];

	for (const auto &child : root->children)
		sum += child->heights[0];
	return sum;
}

static volatile std::sig_atomic_t ended;

static void end(int)
{
	ended = 1;
}

int main()
{
	timespec next;
	volatile float sink = 0;

	std::signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		sink = sink + render_view(number);
		if (number == 20) {
			std::puts("ready");
			std::fflush(stdout);
		}
		next.tv_nsec += 25000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
	}
	std::fprintf(stderr, "%zu tiles are alive\n", alive);
}
