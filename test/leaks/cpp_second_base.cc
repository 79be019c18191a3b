// Held by pointers to the second base alone, which is not at the object's start.
#include "planted.h"

namespace
{
struct Shape {
	virtual ~Shape() = default;
	long area = 1;
};
struct Listener {
	virtual ~Listener() = default;
	long events = 2;
};
struct Button : Shape, Listener {
	long label = 3;
};

PLANTED_FRAME Listener *make_button()
{
	return new Button;
}
} // namespace

Listener *kept_listeners[20];

void plant()
{
	for (auto &listener : kept_listeners)
		listener = make_button();
}
