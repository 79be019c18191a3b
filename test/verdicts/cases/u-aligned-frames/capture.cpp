// A video grabber: frames in page-aligned buffers. Those of dropped frames are lost.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

static unsigned long dropped, sent;

struct alignas(4096) Frame {
	unsigned char pixels[96 * 1024];
};

[[gnu::noinline]] static Frame *grabFrame(unsigned id)
{
	auto *frame = new Frame;

	std::memset(frame->pixels, static_cast<int>(id), sizeof(frame->pixels));
	return frame;
}

[[gnu::noinline]] static void *scaleFrame(const Frame *frame)
{
	void *scaled = std::aligned_alloc(1 << 16, 1 << 16);

	std::memcpy(scaled, frame->pixels, 24 * 1024);
	return scaled;
}

[[gnu::noinline]] static void encode(unsigned id)
{
	Frame *frame = grabFrame(id);
	void *scaled = scaleFrame(frame);

	std::free(scaled);
	if (id % 4 == 0) {
		dropped++;
		return;
	}
	delete frame;
	sent++;
}

int main()
{
	auto next = std::chrono::steady_clock::now();

	std::cout << "ready" << std::endl;
	for (unsigned id = 0;; id++) {
		encode(id);
		if (id % 150 == 0)
			std::fprintf(stderr, "%lu sent, %lu dropped, %lu bytes\n", sent, dropped, dropped * sizeof(Frame));
		next += std::chrono::milliseconds(20);
		std::this_thread::sleep_until(next);
	}
}
