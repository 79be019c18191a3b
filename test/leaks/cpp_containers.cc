// What the standard containers hold is held. Nothing is lost.
#include "planted.h"

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{
struct Everything {
	std::string text = std::string(200, 'x');
	std::vector<std::string> names;
	std::map<int, std::string> sorted;
	std::unordered_map<int, std::string> hashed;
	std::deque<std::string> queue;
	std::list<std::string> list;
	std::function<long()> call;
	std::weak_ptr<int> weak;
};
} // namespace

Everything everything;

namespace
{
PLANTED_FRAME void fill()
{
	for (int i = 0; i < 100; i++) {
		const std::string name(30 + i, 'y');

		everything.names.push_back(name);
		everything.sorted[i] = name;
		everything.hashed[i] = name;
		everything.queue.push_back(name);
		everything.list.push_back(name);
	}
	for (int i = 0; i < 30; i++)
		everything.queue.pop_front();
	everything.call = [a = 1L, b = 2L, c = 3L, d = everything.text.c_str()] {
		return a + b + c + *d;
	};
	everything.weak = std::make_shared<int>(7);
}
} // namespace

void plant()
{
	fill();
}
