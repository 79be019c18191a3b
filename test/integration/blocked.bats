#!/usr/bin/env bats
# A thread that is blocked in a system call gets from it what it would have got without us.
# time-limit: 400

load helpers
setup() { begin; }
teardown() { end; }

asleep() {
	local stat
	read -r stat <"/proc/$1/stat"
	stat=${stat##*) }
	[[ ${stat%% *} == S ]]
}

# blocked KIND...
blocked() {
	local kind
	for kind in "$@"; do
		start "$kind" "$TARGETS/sleeper" "$kind" || return 1
		wait_until 10 asleep "$pid" || return 1
		timeout 60 "$LIMPET" attach -q --no-seal -d 50ms -o "$kind.limpet" "$pid" 2>"$kind.say" ||
			fail "$kind: attach failed" || return 1
		tell "$kind" release good || fail "$kind" || return 1
		nothing_of_ours "$pid" || fail "$kind" || return 1
		finish "$kind" || return 1
	done
}

@test "reading and writing" {
	blocked read readv write splice recv recvfrom recvmsg accept
}

@test "descriptors of the kernel's" {
	blocked eventfd signalfd timerfd inotify
}

@test "waiting for readiness" {
	blocked poll poll-timeout ppoll select pselect epoll_wait
}

@test "time" {
	blocked nanosleep clock_nanosleep futex-timeout
}

@test "futexes" {
	blocked futex mutex condition semaphore
}

@test "signals" {
	blocked pause sigsuspend sigwaitinfo
}

@test "children, locks and System V" {
	blocked wait4 waitid flock record-lock msgrcv semop mq_receive
}

@test "every kind that the sleeper knows is tested here" {
	for kind in $("$TARGETS/sleeper" --list); do
		grep -qE "^	blocked .*\<$kind\>" "$BATS_TEST_FILENAME" || fail "$kind is not tested"
	done
}
