#!/usr/bin/env bats
# A thread that is blocked in a system call gets from it what it would have got without us, whether it is
# the one that limpet borrows or one beside it, and over several rounds within one call.
#
# Which calls end with EINTR after any stop is not believed but measured: beside each target stands a
# twin, which a tracer only stops and resumes. ROUNDS says how many rounds there are within a call.
# time-limit: 600
# measures-time: how late and how early calls end

load helpers
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=2}"
: "${TORTURE:=$root/build/torture}"
# What a wake-up may be late for other reasons than ours and the run queue (timer slack, a hypervisor).
slack_us=100000

# disturbed KIND MS: 0: all is well; 2: time ended the call before we were done with it; 3: not here.
disturbed() {
	local kind=$1 ms=$2 name key=$1.$2 ended=0
	local -A of=() jobs=() stops=() stopped=()
	for name in idle borrowed beside; do
		local options=()
		[[ $name != beside ]] || options=(--bystander)
		start "$key.$name" "$TARGETS/sleeper" --ms "$ms" "${options[@]}" "$kind" || return 1
		[[ $pid != none ]] || return 3
		of[$name]=$pid
	done
	for name in idle borrowed beside; do
		local tracer=limpet
		[[ $name != idle ]] || tracer=idle
		within 60 "$TORTURE/stops" "$tracer" "${of[$name]}" "$ROUNDS" >"$name.say" 2>"$name.err" \
			3>&- &
		jobs[$name]=$!
	done
	for name in idle borrowed beside; do
		wait "${jobs[$name]}" || fail "$key, $name: $(<"$name.err")" || return 1
		read -r stops[$name] stopped[$name] <"$name.say"
		tell "$key.$name" state "" || return 1
		[[ $answer == asleep* ]] || ended=2
		nothing_of_ours "${of[$name]}" || return 1
	done
	# Not even stopped, so not even late.
	stopped[beside]=0
	for name in idle borrowed beside; do
		tell "$key.$name" release good || return 1
		read -r _ interruptions over <<<"$answer"
		# One that was ended and made again has its own idea of the time.
		((interruptions > 0 || over <= stopped[$name] + slack_us)) || fail "$key, $name: slept $over us" \
			"longer than it should, and was stopped for ${stopped[$name]} us" || return 1
		finish "$key.$name" || return 1
		stops[$name]="$interruptions/${stops[$name]}"
	done
	if [[ ${stops[idle]} != 0/* ]]; then
		measured[$kind]=1
	elif ((ended == 0)) && [[ ${stops[borrowed]} != 0/* ]]; then
		fail "$key: ended with EINTR by ${stops[borrowed]} of our stops, by none of others"
		return 1
	fi
	((${stops[borrowed]/\//<=})) || fail "$key: ended ${stops[borrowed]} times" || return 1
	[[ ${stops[beside]} == 0/* ]] || fail "$key: beside us, ended ${stops[beside]} times" || return 1
	return $ended
}

# blocked KIND...
blocked() {
	local kind ms status list
	declare -A measured=()
	for kind in "$@"; do
		status=2
		for ((ms = 1000; status == 2 && ms < 30000; ms *= 3)); do
			status=0
			disturbed "$kind" "$ms" || status=$?
		done
		if ((status == 3)); then
			skip "$kind: ${ready#* }"
		fi
		((status == 0)) || fail "$kind ($status)" || return 1
		[[ $ready == timed ]] || continue
		# Once more, so short that it ends in our hands as often as not.
		disturbed "$kind" 40 || status=$?
		((status == 0 || status == 2)) || fail "$kind, ending meanwhile" || return 1
	done
	list=${!measured[*]}
	echo "# figures: $ROUNDS rounds in each of: $*; ended with EINTR by any stop: ${list:-none}" >&3
}

@test "reading and writing" {
	blocked read readv write splice open terminal
}

@test "sockets" {
	blocked recv recvfrom recvmsg recv-timeout send accept connect connect-tcp
}

@test "descriptors of the kernel's" {
	blocked eventfd signalfd timerfd inotify
}

@test "waiting for readiness" {
	blocked poll poll-timeout ppoll ppoll-timeout select select-timeout pselect pselect-timeout
}

@test "epoll" {
	blocked epoll_wait epoll_wait-timeout epoll_pwait epoll_pwait2
}

@test "asynchronous input" {
	blocked io_getevents
}

@test "io_uring" {
	blocked io_uring_enter
}

@test "io_uring, with a worker of the kernel's among the threads" {
	blocked io_uring-worker
}

@test "time" {
	blocked nanosleep clock_nanosleep clock_nanosleep-absolute
}

@test "futexes" {
	blocked futex futex-woken futex-timeout futex-bitset mutex mutex-inheriting condition semaphore
}

@test "several futexes" {
	blocked futex_waitv
}

@test "signals" {
	blocked pause sigsuspend sigwaitinfo sigtimedwait
}

@test "children and locks" {
	blocked wait4 waitid flock record-lock posix-lock
}

@test "queues and semaphores" {
	blocked msgrcv msgsnd semop semtimedop mq_receive mq_timedreceive mq_send
}

@test "every kind that the sleeper knows is tested here" {
	for kind in $("$TARGETS/sleeper" --list); do
		grep -qE "^	blocked (.* )?$kind( |\$)" "$BATS_TEST_FILENAME" || fail "$kind is not tested"
	done
}
