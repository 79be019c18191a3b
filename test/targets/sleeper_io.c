/* Reading, writing, sockets, what the kernel offers as descriptors, and waiting for several. */
#include "test/targets/sleeper.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <termios.h>

#include "test/targets/target.h"

static int listener = -1, client = -1, own_fd = -1;
static char directory[64], path[96];

/* ------------------------------------------------------------------ reading and writing */

static int sleep_read(void)
{
	return (int)read(sleeper_ends[0], sleeper_data, sizeof(sleeper_data));
}
static int sleep_readv(void)
{
	struct iovec parts[2] = {{sleeper_data, 2}, {sleeper_data + 2, 100}};

	return (int)readv(sleeper_ends[0], parts, 2);
}
static void fill_pipe(void)
{
	sleeper_make_pipe();
	sleeper_must(fcntl(sleeper_ends[1], F_SETPIPE_SZ, 65536) == 65536, "F_SETPIPE_SZ");
	sleeper_must(write(sleeper_ends[1], sleeper_data, 65536) == 65536, "write");
}
static int sleep_write(void)
{
	return (int)write(sleeper_ends[1], sleeper_data, 5);
}
static void drain_pipe(void)
{
	sleeper_must(read(sleeper_ends[0], sleeper_data, 65536) == 65536, "read");
}
/* Calls that have moved a part of their bytes when they sleep; 5: all of them. */
#define MUCH (4u << 20)
static char much[MUCH];

static int all_of(ssize_t moved, size_t wanted)
{
	return moved == (ssize_t)wanted ? 5 : moved < 0 ? -1 : 1;
}
static int sleep_write_much(void)
{
	return all_of(write(sleeper_ends[1], much, MUCH), MUCH);
}
static int sleep_writev_much(void)
{
	struct iovec parts[2] = {{much, MUCH / 2}, {much, MUCH / 2}};

	return all_of(writev(sleeper_ends[1], parts, 2), MUCH);
}
static int sleep_send_much(void)
{
	return all_of(send(sleeper_sockets[0], much, MUCH, 0), MUCH);
}
static int sleep_sendmsg_much(void)
{
	struct iovec part = {much, MUCH};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	return all_of(sendmsg(sleeper_sockets[0], &message, 0), MUCH);
}
static int sleep_sendmmsg_much(void)
{
	struct iovec part = {much, MUCH / 4};
	struct mmsghdr messages[4];

	for (unsigned i = 0; i < 4; i++)
		messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
	if (sendmmsg(sleeper_sockets[0], messages, 4, 0) != 4)
		return 1;
	return all_of((ssize_t)messages[0].msg_len + messages[1].msg_len + messages[2].msg_len +
			      messages[3].msg_len,
		      MUCH);
}
static int sleep_sendfile(void)
{
	int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	sleeper_must(file >= 0 && !ftruncate(file, MUCH), "O_TMPFILE");
	return all_of(sendfile(sleeper_sockets[0], file, NULL, MUCH), MUCH);
}
static void drain(int fd)
{
	for (size_t left = MUCH; left && sleeper_shared->result == SLEEPER_NONE;) {
		struct pollfd one = {fd, POLLIN, 0};
		ssize_t got =
			poll(&one, 1, 10) == 1 ? read(fd, sleeper_data, sizeof(sleeper_data)) : 0;

		sleeper_must(got >= 0, "read");
		left -= (size_t)got;
	}
}
static void drain_much(void)
{
	drain(sleeper_sockets[1] > 0 ? sleeper_sockets[1] : sleeper_ends[0]);
}
static void send_some(void)
{
	sleeper_make_sockets();
	sleeper_must(write(sleeper_sockets[1], "he", 2) == 2, "write");
}
static void send_the_rest(void)
{
	sleeper_must(write(sleeper_sockets[1], "llo", 3) == 3, "write");
}
static int sleep_recvmsg_all(void)
{
	struct iovec part = {sleeper_data, 5};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	return (int)recvmsg(sleeper_sockets[0], &message, MSG_WAITALL);
}
static int sleep_recv_all(void)
{
	return (int)recv(sleeper_sockets[0], sleeper_data, 5, MSG_WAITALL);
}
/* All five, or none. */
static void send_too_little(void)
{
	const int least = 5;

	send_some();
	sleeper_must(
		!setsockopt(sleeper_sockets[0], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)),
		"SO_RCVLOWAT");
}
static int sleep_read_low(void)
{
	return (int)read(sleeper_sockets[0], sleeper_data, 5);
}
static int sleep_splice(void)
{
	return (int)splice(sleeper_ends[0], NULL, own_fd, NULL, 100, 0);
}
static void make_splice(void)
{
	int out[2];

	sleeper_make_pipe();
	sleeper_must(!pipe2(out, O_CLOEXEC), "pipe2");
	own_fd = out[1];
}
static int sleep_recv(void)
{
	return (int)recv(sleeper_sockets[0], sleeper_data, sizeof(sleeper_data), 0);
}
static int sleep_recvfrom(void)
{
	return (int)recvfrom(sleeper_sockets[0], sleeper_data, 5, 0, NULL, NULL);
}
static int sleep_recvmsg(void)
{
	struct iovec part = {sleeper_data, sizeof(sleeper_data)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	return (int)recvmsg(sleeper_sockets[0], &message, 0);
}
static void make_listener(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "limpet-sleeper-%d", getpid());
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sleeper_must(listener >= 0 &&
			     !bind(listener, (struct sockaddr *)&address, sizeof(address)) &&
			     !listen(listener, 1),
		     "listen");
}
static int sleep_accept(void)
{
	int fd = accept(listener, NULL, NULL);

	return fd >= 0 ? 5 : -1;
}
static int connect_to_listener(void)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);

	if (client < 0 && !getsockname(listener, (struct sockaddr *)&address, &bytes))
		client = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sleeper_must(client >= 0 && !getsockname(listener, (struct sockaddr *)&address, &bytes),
		     "socket");
	return connect(client, (struct sockaddr *)&address, bytes) ? -1 : 5;
}
static void connect_and_leave(void)
{
	sleeper_must(connect_to_listener() == 5, "connect");
}
/* No more room for those that wait to be accepted: the next one waits. */
static void fill_listener(void)
{
	make_listener();
	sleeper_must(!listen(listener, 0), "listen");
	sleeper_must(connect_to_listener() == 5, "connect");
	client = -1;
}
static void make_full_tcp_listener(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sleeper_must(listener >= 0 &&
			     !bind(listener, (struct sockaddr *)&address, sizeof(address)) &&
			     !listen(listener, 0),
		     "listen");
	sleeper_must(connect_to_listener() == 5, "connect");
	client = -1;
}
static void accept_all(void)
{
	sleeper_must(accept(listener, NULL, NULL) >= 0, "accept");
}
static int sleep_recv_timeout(void)
{
	struct timespec time = sleeper_time();
	struct timeval limit = {time.tv_sec, time.tv_nsec / 1000};

	sleeper_must(
		!setsockopt(sleeper_sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)),
		"SO_RCVTIMEO");
	return recv(sleeper_sockets[0], sleeper_data, 5, 0) < 0 && errno == EAGAIN ? 5 : -1;
}
static void fill_sockets(void)
{
	sleeper_make_sockets();
	while (send(sleeper_sockets[0], sleeper_data, sizeof(sleeper_data), MSG_DONTWAIT) > 0)
		;
	sleeper_must(errno == EAGAIN, "send");
}
static int sleep_send(void)
{
	return (int)send(sleeper_sockets[0], sleeper_data, 5, 0);
}
static void drain_sockets(void)
{
	while (recv(sleeper_sockets[1], sleeper_data, sizeof(sleeper_data), MSG_DONTWAIT) > 0)
		;
	sleeper_must(errno == EAGAIN, "recv");
}
static void make_terminal(void)
{
	sleeper_ends[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	sleeper_must(sleeper_ends[1] >= 0 && !grantpt(sleeper_ends[1]) &&
			     !unlockpt(sleeper_ends[1]),
		     "posix_openpt");
	sleeper_ends[0] = open(ptsname(sleeper_ends[1]), O_RDWR | O_NOCTTY | O_CLOEXEC);
	sleeper_must(sleeper_ends[0] >= 0, "terminal");
}
static void type_too_little(void)
{
	struct termios mode;

	make_terminal();
	sleeper_must(!tcgetattr(sleeper_ends[0], &mode), "tcgetattr");
	cfmakeraw(&mode);
	mode.c_cc[VMIN] = 5;
	mode.c_cc[VTIME] = 0;
	sleeper_must(!tcsetattr(sleeper_ends[0], TCSANOW, &mode), "tcsetattr");
	sleeper_must(write(sleeper_ends[1], "he", 2) == 2, "write");
}
static void type_the_rest(void)
{
	sleeper_must(write(sleeper_ends[1], "llo", 3) == 3, "write");
}
static void type_a_line(void)
{
	sleeper_must(write(sleeper_ends[1], "helo\n", 5) == 5, "write");
}
static void make_directory(void)
{
	snprintf(directory, sizeof(directory), "/tmp/limpet-sleeper.XXXXXX");
	sleeper_must(mkdtemp(directory), "mkdtemp");
	snprintf(path, sizeof(path), "%s/made", directory);
}
static void make_fifo(void)
{
	make_directory();
	sleeper_must(!mkfifo(path, 0600), "mkfifo");
}
static int sleep_open(void)
{
	return open(path, O_RDONLY | O_CLOEXEC) >= 0 ? 5 : -1;
}
static void open_other_end(void)
{
	sleeper_must(open(path, O_WRONLY | O_CLOEXEC) >= 0, "open");
}
static void make_eventfd(void)
{
	own_fd = eventfd(0, EFD_CLOEXEC);
	sleeper_must(own_fd >= 0, "eventfd");
}
static int sleep_eventfd(void)
{
	uint64_t value = 0;

	return read(own_fd, &value, sizeof(value)) == sizeof(value) ? (int)value : -1;
}
static void add_to_eventfd(void)
{
	uint64_t value = 5;

	sleeper_must(write(own_fd, &value, sizeof(value)) == sizeof(value), "write");
}
static void make_signalfd(void)
{
	sigset_t set;

	sleeper_block_signal();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	own_fd = signalfd(-1, &set, SFD_CLOEXEC);
	sleeper_must(own_fd >= 0, "signalfd");
}
static int sleep_signalfd(void)
{
	struct signalfd_siginfo info;

	if (read(own_fd, &info, sizeof(info)) != sizeof(info))
		return -1;
	return info.ssi_signo == SIGUSR1 ? 5 : -1;
}
static void make_timerfd(void)
{
	own_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	sleeper_must(own_fd >= 0, "timerfd_create");
}
static int sleep_timerfd(void)
{
	struct itimerspec when = {.it_value = sleeper_time()};
	uint64_t value;

	sleeper_must(!timerfd_settime(own_fd, 0, &when, NULL), "timerfd_settime");
	return read(own_fd, &value, sizeof(value)) == sizeof(value) && value == 1 ? 5 : -1;
}
static void make_inotify(void)
{
	make_directory();
	own_fd = inotify_init1(IN_CLOEXEC);
	sleeper_must(own_fd >= 0 && inotify_add_watch(own_fd, directory, IN_CREATE) >= 0,
		     "inotify");
}
static int sleep_inotify(void)
{
	return read(own_fd, sleeper_data, sizeof(sleeper_data)) > 0 ? 5 : -1;
}
static void create_file(void)
{
	sleeper_must(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0, "open");
}

/* ------------------------------------------------------------------ waiting for readiness */

static int sleep_poll(void)
{
	struct pollfd one = {sleeper_ends[0], POLLIN, 0};

	return poll(&one, 1, AN_HOUR_S * 1000) == 1 && one.revents & POLLIN ? 5 : -1;
}
static int sleep_ppoll(void)
{
	struct pollfd one = {sleeper_ends[0], POLLIN, 0};
	struct timespec limit = {AN_HOUR_S, 0};
	sigset_t none;

	sigemptyset(&none);
	return ppoll(&one, 1, &limit, &none) == 1 && one.revents & POLLIN ? 5 : -1;
}
static int sleep_select(void)
{
	fd_set set;
	struct timeval limit = {AN_HOUR_S, 0};

	FD_ZERO(&set);
	FD_SET(sleeper_ends[0], &set);
	return syscall(SYS_select, sleeper_ends[0] + 1, &set, NULL, NULL, &limit) == 1 ? 5 : -1;
}
static int sleep_pselect(void)
{
	fd_set set;
	struct timespec limit = {AN_HOUR_S, 0};
	sigset_t none;

	FD_ZERO(&set);
	FD_SET(sleeper_ends[0], &set);
	sigemptyset(&none);
	return pselect(sleeper_ends[0] + 1, &set, NULL, NULL, &limit, &none) == 1 ? 5 : -1;
}
/* Calls that nothing ends: their time has to be the one that was asked for. */
static int sleep_poll_timeout(void)
{
	struct pollfd one = {sleeper_ends[0], POLLIN, 0};

	return poll(&one, 1, (int)sleeper_ms) == 0 ? 5 : -1;
}
static int sleep_ppoll_timeout(void)
{
	struct pollfd one = {sleeper_ends[0], POLLIN, 0};

	sleeper_shared->limit = sleeper_time();
	return syscall(SYS_ppoll, &one, 1, &sleeper_shared->limit, NULL, (size_t)8) ? -1 : 5;
}
static int sleep_select_timeout(void)
{
	sleeper_shared->limit = sleeper_time();
	/* A struct timeval. */
	sleeper_shared->limit.tv_nsec /= 1000;
	return syscall(SYS_select, 0, NULL, NULL, NULL, &sleeper_shared->limit) ? -1 : 5;
}
static int sleep_pselect_timeout(void)
{
	sigset_t none;
	const struct {
		const void *mask;
		size_t bytes;
	} masked = {&none, 8};

	sigemptyset(&none);
	sleeper_shared->limit = sleeper_time();
	return syscall(SYS_pselect6, 0, NULL, NULL, NULL, &sleeper_shared->limit, &masked) ? -1 : 5;
}
static void make_epoll(void)
{
	struct epoll_event event = {.events = EPOLLIN};

	sleeper_make_pipe();
	own_fd = epoll_create1(EPOLL_CLOEXEC);
	sleeper_must(own_fd >= 0 && !epoll_ctl(own_fd, EPOLL_CTL_ADD, sleeper_ends[0], &event),
		     "epoll");
}
static int sleep_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(own_fd, &event, 1, AN_HOUR_S * 1000) == 1 ? 5 : -1;
}
static int sleep_epoll_pwait(void)
{
	struct epoll_event event;
	sigset_t none;

	sigemptyset(&none);
	return epoll_pwait(own_fd, &event, 1, -1, &none) == 1 ? 5 : -1;
}
static int sleep_epoll_pwait2(void)
{
	struct epoll_event event;
	const struct timespec limit = {AN_HOUR_S, 0};

	return syscall(SYS_epoll_pwait2, own_fd, &event, 1, &limit, NULL, (size_t)8) == 1 ? 5 : -1;
}
static int sleep_epoll_timeout(void)
{
	struct epoll_event event;

	return epoll_wait(own_fd, &event, 1, (int)sleeper_ms) == 0 ? 5 : -1;
}

/* ------------------------------------------------------------------ submitted, and waited for */

static aio_context_t aio;
static struct iocb aio_one;

/* Of the sleeping process: a context belongs to a memory. */
static void submit_aio(void)
{
	struct iocb *list[1] = {&aio_one};

	if (syscall(SYS_io_setup, 4, &aio))
		target_broken("io_setup: %s", strerror(errno));
	aio_one = (struct iocb){.aio_lio_opcode = IOCB_CMD_POLL,
				.aio_fildes = (uint32_t)sleeper_ends[0],
				.aio_buf = POLLIN};
	sleeper_must(syscall(SYS_io_submit, aio, 1, list) == 1, "io_submit");
}
static int sleep_io_getevents(void)
{
	struct io_event event;
	long n = syscall(SYS_io_getevents, aio, 1, 1, &event, NULL);

	return n == 1 && event.res & POLLIN ? 5 : -1;
}
static void try_aio(void)
{
	sleeper_make_pipe();
	if (syscall(SYS_io_setup, 4, &aio))
		sleeper_impossible("io_setup");
	syscall(SYS_io_destroy, aio);
	aio = 0;
}

static int ring_fd = -1;
static struct io_uring_params ring;
static uint8_t *ring_memory;

static void try_ring(void)
{
	sleeper_make_pipe();
	int fd = (int)syscall(SYS_io_uring_setup, 4, &ring);

	if (fd < 0)
		sleeper_impossible("io_uring_setup");
	close(fd);
}
static void prepare_read(uint8_t flags)
{
	struct io_uring_sqe *entries;

	memset(&ring, 0, sizeof(ring));
	ring_fd = (int)syscall(SYS_io_uring_setup, 4, &ring);
	sleeper_must(ring_fd >= 0 && ring.features & IORING_FEAT_SINGLE_MMAP, "io_uring_setup");
	ring_memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_fd,
			   IORING_OFF_SQ_RING);
	entries = mmap(NULL, 4 * sizeof(*entries), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_POPULATE, ring_fd, IORING_OFF_SQES);
	sleeper_must(ring_memory != MAP_FAILED && entries != MAP_FAILED, "mmap");
	entries[0] = (struct io_uring_sqe){.opcode = IORING_OP_READ,
					   .flags = flags,
					   .fd = sleeper_ends[0],
					   .addr = (uintptr_t)sleeper_data,
					   .len = 5};
	*(uint32_t *)(void *)(ring_memory + ring.sq_off.array) = 0;
	__atomic_store_n((uint32_t *)(void *)(ring_memory + ring.sq_off.tail), 1, __ATOMIC_RELEASE);
}
static void prepare_ring(void)
{
	prepare_read(0);
}
static void submit_read(uint8_t flags)
{
	prepare_read(flags);
	sleeper_must(syscall(SYS_io_uring_enter, ring_fd, 1, 0, 0, NULL, (size_t)0) == 1,
		     "io_uring_enter");
}
static void submit_to_ring(void)
{
	submit_read(0);
}
/* By a thread of the kernel's that looks like one of the program's. */
static void submit_to_worker(void)
{
	submit_read(IOSQE_ASYNC);
}
static int sleep_in_ring(unsigned submitted)
{
	const struct io_uring_cqe *done = (const void *)(ring_memory + ring.cq_off.cqes);

	if (syscall(SYS_io_uring_enter, ring_fd, submitted, 1, IORING_ENTER_GETEVENTS, NULL,
		    (size_t)0) != submitted)
		return -1;
	return __atomic_load_n((uint32_t *)(void *)(ring_memory + ring.cq_off.tail),
			       __ATOMIC_ACQUIRE) == 1
		       ? done->res
		       : -1;
}

static int sleep_io_uring(void)
{
	return sleep_in_ring(0);
}
static int sleep_io_uring_submit(void)
{
	return sleep_in_ring(1);
}

void sleeper_io_clean_up(void)
{
	if (path[0])
		unlink(path);
	if (directory[0])
		rmdir(directory);
}

const struct sleeper_kind sleeper_io_kinds[] = {
	{"read", SYS_read, sleeper_make_pipe, sleep_read, sleeper_send_hello, NULL},
	{"readv", SYS_readv, sleeper_make_pipe, sleep_readv, sleeper_send_hello, NULL},
	{"write", SYS_write, fill_pipe, sleep_write, drain_pipe, NULL},
	{"splice", SYS_splice, make_splice, sleep_splice, sleeper_send_hello, NULL},
	{"write-much", SYS_write, sleeper_make_pipe, sleep_write_much, drain_much, NULL},
	{"writev-much", SYS_writev, sleeper_make_pipe, sleep_writev_much, drain_much, NULL},
	{"send-much", SYS_sendto, sleeper_make_sockets, sleep_send_much, drain_much, NULL},
	{"sendmsg-much", SYS_sendmsg, sleeper_make_sockets, sleep_sendmsg_much, drain_much, NULL},
	{"sendmmsg-much", SYS_sendmmsg, sleeper_make_sockets, sleep_sendmmsg_much, drain_much,
	 NULL},
	{"sendfile-much", SYS_sendfile, sleeper_make_sockets, sleep_sendfile, drain_much, NULL},
	{"recv-all", SYS_recvfrom, send_some, sleep_recv_all, send_the_rest, NULL},
	{"recvmsg-all", SYS_recvmsg, send_some, sleep_recvmsg_all, send_the_rest, NULL},
	{"recv-low", SYS_recvfrom, send_too_little, sleep_recvfrom, send_the_rest, NULL},
	{"read-low", SYS_read, send_too_little, sleep_read_low, send_the_rest, NULL},
	{"read-raw", SYS_read, type_too_little, sleep_read, type_the_rest, NULL},
	{"open", SYS_openat, make_fifo, sleep_open, open_other_end, NULL},
	{"terminal", SYS_read, make_terminal, sleep_read, type_a_line, NULL},
	{"recv", SYS_recvfrom, sleeper_make_sockets, sleep_recv, sleeper_send_hello, NULL},
	{"recvfrom", SYS_recvfrom, sleeper_make_sockets, sleep_recvfrom, sleeper_send_hello, NULL},
	{"recvmsg", SYS_recvmsg, sleeper_make_sockets, sleep_recvmsg, sleeper_send_hello, NULL},
	{"recv-timeout", SYS_recvfrom, sleeper_make_sockets, sleep_recv_timeout, NULL, NULL},
	{"send", SYS_sendto, fill_sockets, sleep_send, drain_sockets, NULL},
	{"accept", SYS_accept, make_listener, sleep_accept, connect_and_leave, NULL},
	{"connect", SYS_connect, fill_listener, connect_to_listener, accept_all, NULL},
	{"connect-tcp", SYS_connect, make_full_tcp_listener, connect_to_listener, accept_all, NULL},
	{"eventfd", SYS_read, make_eventfd, sleep_eventfd, add_to_eventfd, NULL},
	{"signalfd", SYS_read, make_signalfd, sleep_signalfd, sleeper_signal, NULL},
	{"timerfd", SYS_read, make_timerfd, sleep_timerfd, NULL, NULL},
	{"inotify", SYS_read, make_inotify, sleep_inotify, create_file, NULL},
	{"poll", SYS_poll, sleeper_make_pipe, sleep_poll, sleeper_send_hello, NULL},
	{"poll-timeout", SYS_poll, sleeper_make_pipe, sleep_poll_timeout, NULL, NULL},
	{"ppoll", SYS_ppoll, sleeper_make_pipe, sleep_ppoll, sleeper_send_hello, NULL},
	{"ppoll-timeout", SYS_ppoll, sleeper_make_pipe, sleep_ppoll_timeout, NULL, NULL},
	{"select", SYS_select, sleeper_make_pipe, sleep_select, sleeper_send_hello, NULL},
	{"select-timeout", SYS_select, NULL, sleep_select_timeout, NULL, NULL},
	{"pselect", SYS_pselect6, sleeper_make_pipe, sleep_pselect, sleeper_send_hello, NULL},
	{"pselect-timeout", SYS_pselect6, NULL, sleep_pselect_timeout, NULL, NULL},
	{"epoll_wait", SYS_epoll_wait, make_epoll, sleep_epoll, sleeper_send_hello, NULL},
	{"epoll_wait-timeout", SYS_epoll_wait, make_epoll, sleep_epoll_timeout, NULL, NULL},
	{"epoll_pwait", SYS_epoll_pwait, make_epoll, sleep_epoll_pwait, sleeper_send_hello, NULL},
	{"epoll_pwait2", SYS_epoll_pwait2, make_epoll, sleep_epoll_pwait2, sleeper_send_hello,
	 NULL},
	{"io_getevents", SYS_io_getevents, try_aio, sleep_io_getevents, sleeper_send_hello,
	 submit_aio},
	{"io_uring_enter", SYS_io_uring_enter, try_ring, sleep_io_uring, sleeper_send_hello,
	 submit_to_ring},
	{"io_uring-worker", SYS_io_uring_enter, try_ring, sleep_io_uring, sleeper_send_hello,
	 submit_to_worker},
	{"io_uring_enter-submit", SYS_io_uring_enter, try_ring, sleep_io_uring_submit,
	 sleeper_send_hello, prepare_ring},
	{NULL, 0, NULL, NULL, NULL, NULL},
};
