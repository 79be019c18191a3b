#!/usr/bin/env bats
# A thread that is blocked in a system call gets from it what it would have got without us, whether it is
# the one that limpet hijacks or one beside it, and over several rounds within one call.
#
# What a stop does to a call is not believed but seen: beside each target stands a twin, which a tracer only
# stops and resumes. Afterwards the hijacked thread has to sleep as its twin does: where the kernel goes on with
# an interrupted call (restart_syscall) or has written back what is left of its time, that call was not begun
# anew with all of its time. The thread beside has to be in the call that it made, or else to sleep so, too. No
# call ends too early; how late they end is measured in test/torture/call_limits.bats. BLOCKED_ROUNDS says how
# many rounds there are within a call.
#
# A thread beside us that has just been woken by its call's time limit runs, as far as anybody can see, and is
# stopped like one that does: the kernel then answers EINTR where it had EAGAIN in hand. That is
# not counted where time has ended the call in our hands, and others' stops end it with EINTR, too.
# time-limit: 600

load helpers
setup() { begin; }
teardown() { end; }

: "${BLOCKED_ROUNDS:=1}"
: "${TORTURE:=$root/build/torture}"
# Any stop ends these with EINTR; after ours they are made again, with what is left of their time.
again=" epoll_pwait sigwaitinfo semop io_getevents io_uring_enter io_uring-worker "
shortened=" epoll_wait epoll_wait-timeout "

# disturbed KIND MS: 0: all is well; 2: time ended the call before we were done with it; 3: not here.
disturbed() {
	local kind=$1 ms=$2 name key=$1.$2 ended=0
	local -A of=() jobs=() stops=() before=() after=()
	for name in idle hijacked beside; do
		local options=()
		[[ $name != beside ]] || options=(--bystander)
		start "$key.$name" "$TARGETS/sleeper" --ms "$ms" "${options[@]}" "$kind" || return 1
		[[ $pid != none ]] || return 3
		of[$name]=$pid
		tell "$key.$name" call call || return 1
		before[$name]=${answer#call }
	done
	for name in idle hijacked beside; do
		local tracer=limpet
		[[ $name != idle ]] || tracer=idle
		within 60 "$TORTURE/stops" "$tracer" "${of[$name]}" "$BLOCKED_ROUNDS" >"$name.say" 2>"$name.err" \
			3>&- &
		jobs[$name]=$!
	done
	for name in idle hijacked beside; do
		wait "${jobs[$name]}" || fail "$key, $name: $(<"$name.err")" || return 1
		read -r stops[$name] _ <"$name.say"
		tell "$key.$name" call call || return 1
		after[$name]=${answer#call }
		[[ ${before[$name]} != ended && ${after[$name]} != ended ]] || ended=2
		[[ $name == idle ]] || nothing_of_ours "${of[$name]}" || return 1
	done
	for name in idle hijacked beside; do
		tell "$key.$name" release good || return 1
		read -r _ interruptions _ <<<"$answer"
		finish "$key.$name" || return 1
		stops[$name]="$interruptions/${stops[$name]}"
	done
	if ((ended == 0)); then
		same "$key, hijacked: the call that it is in, and its limit" "${after[hijacked]}" "${after[idle]}" || return 1
		# Hijacked too, if the first thread was not asleep again when the next round began.
		[[ ${after[beside]} == "${after[idle]}" ]] ||
			same "$key, beside: the call that it is in, and its limit" "${after[beside]}" "${before[beside]}" || return 1
	fi
	if [[ ${stops[idle]} != 0/* ]]; then
		measured[$kind]=1
	fi
	if [[ $again == *" $kind "* ]]; then
		[[ ${stops[idle]} != 0/* ]] || fail "$key: ended by no stop of others" || return 1
		[[ ${stops[hijacked]} == 0/* && ${stops[beside]} == 0/* ]] ||
			fail "$key: ended with EINTR by ours, ${stops[hijacked]} and ${stops[beside]}" || return 1
	elif [[ $shortened == *" $kind "* ]]; then
		: # below, with what time it took
	elif [[ ${stops[idle]} != 0/* ]]; then
		# Or somebody has made it again, with all of its time.
		[[ $ready != timed ]] || ((ended)) || [[ ${stops[hijacked]} != 0/* ]] ||
			fail "$key: ended with EINTR by others' stops, by none of ours" || return 1
	elif ((ended == 0)) && [[ ${stops[hijacked]} != 0/* ]]; then
		fail "$key: ended with EINTR by ${stops[hijacked]} of our stops, by none of others"
		return 1
	fi
	((${stops[hijacked]/\//<=})) || fail "$key: ended ${stops[hijacked]} times" || return 1
	# Time may have ended its call, as above, and it is in another one by now: with more time it has not.
	[[ ${stops[beside]} == 0/* || $ended != 0 || $ready != timed ]] || ((ms > 4000)) || return 2
	[[ ${stops[beside]} == 0/* || ($ended != 0 && -v measured[$kind]) ]] ||
		fail "$key: beside us, ended ${stops[beside]} times" || return 1
	return $ended
}

# blocked KIND...
blocked() {
	local kind ms status list
	declare -A measured=()
	for kind in "$@"; do
		status=2
		# As long as it takes to be done within the call.
		for ((ms = 400; status == 2; ms *= 3)); do
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
	echo "# figures: $BLOCKED_ROUNDS rounds in each of: $*; ended with EINTR by any stop: ${list:-none}" >&3
}

@test "reading and writing" {
	blocked read readv write splice open terminal
}

@test "sockets" {
	blocked recv recvfrom recvmsg recv-timeout send accept connect connect-tcp
}

# bats test_tags=release
@test "descriptors of the kernel's" {
	blocked eventfd signalfd timerfd inotify
}

@test "waiting for readiness" {
	blocked poll poll-timeout ppoll ppoll-timeout select select-timeout pselect pselect-timeout
}

@test "epoll" {
	blocked epoll_wait epoll_wait-timeout epoll_pwait epoll_pwait2
}

# waited S: the one that was begun at $since has waited for that long.
waited() { ((${EPOCHREALTIME/[.,]/} - since >= $1 * 1000000)); }

# Where the kernel does not tell when the thread fell asleep, or it has just been woken, EINTR it is: not always.
@test "epoll, with a time limit: what is left of it after a stop, or EINTR" {
	local ms=3000 since interruptions over try left=0 ended
	[[ -r /proc/self/sched ]] || skip "no /proc/self/sched"
	for ((try = 0; try < 10 && left < 2; try++)); do
		start "w$try" "$TARGETS/sleeper" --ms "$ms" epoll_wait-timeout
		since=${EPOCHREALTIME/[.,]/}
		wait_until 60 waited $((ms * 2 / 3000))
		within 60 "$TORTURE/stops" limpet "$pid" 1 3>&-
		tell "w$try" state
		ended=${answer% *}
		tell "w$try" release good
		read -r _ interruptions over <<<"$answer"
		finish "w$try"
		# On so busy a machine it needs more time.
		[[ $ended == asleep ]] || { ms=$((ms * 2)) && continue; }
		((interruptions == 0)) || continue
		# Begun anew with all of its time, it would be two thirds too late.
		((over < ms * 1000 / 2)) || fail "a wait of $ms ms took $over us longer"
		left=$((left + 1))
	done
	((left == 2)) || fail "it always ended with EINTR"
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

# bats test_tags=release
@test "signals" {
	blocked pause sigsuspend sigwaitinfo sigtimedwait
}

# bats test_tags=release
@test "children and locks" {
	blocked wait4 waitid flock record-lock posix-lock
}

# bats test_tags=release
@test "queues and semaphores" {
	blocked msgrcv msgsnd semop semtimedop mq_receive mq_timedreceive mq_send
}

# Filters are read from a thread that stands: one that would not notice.
@test "doctor reads a filter from no thread whose call that would cut short" {
	local kind
	for kind in write-much send-much recv-all; do
		start "$kind" "$TARGETS/confined" --docker "$TARGETS/sleeper" --company "$kind" || return 1
		tell "$kind" call call
		within 30 "$LIMPET" doctor "$pid" >doctor.say
		grep -q "seccomp: its filter lets every call" doctor.say || fail "$kind: $(<doctor.say)" || return 1
		tell "$kind" release good || fail "$kind" || return 1
		finish "$kind"
		start "$kind.alone" "$TARGETS/confined" --docker "$TARGETS/sleeper" "$kind" || return 1
		tell "$kind.alone" call call
		run within 30 "$LIMPET" doctor "$pid"
		[[ $status == 3 && $output == *"each thread waits in a call"*"try again when"* ]] || fail "$kind: $output" || return 1
		tell "$kind.alone" release good || fail "$kind, alone" || return 1
		finish "$kind.alone"
	done
}

@test "a thread that would see a stop waits for its turn while another is late" {
	local stopped
	start both "$TARGETS/sleeper" --bystander epoll_pwait2
	tell both call call
	within 60 env MEDDLE_LATE=300000000 LD_PRELOAD="$TARGETS/meddle.so" "$TORTURE/stops" limpet "$pid" 1 3>&-
	tell both release good
	read -r _ stopped _ <<<"$answer"
	same "stops that it saw" "$stopped" 0
	finish both
}

# whole KIND...: with company another thread is hijacked; alone, it is left alone, with words.
whole() {
	local kind
	for kind in "$@"; do
		start "$kind" "$TARGETS/sleeper" --company "$kind" || return 1
		within 60 "$TORTURE/stops" limpet "$pid" "$BLOCKED_ROUNDS" 3>&- || return 1
		tell "$kind" release "good 0 0" || return 1
		finish "$kind" || return 1
		start "$kind.alone" "$TARGETS/sleeper" "$kind" || return 1
		refused 1 "its thread $pid waits in ${kind%-*}[a-z]*\(2\), which a stop would cut short" \
			"$LIMPET" attach --attach-timeout 300ms -o never.limpet "$pid" || return 1
		nothing_of_ours "$pid" || return 1
		tell "$kind.alone" release "good 0 0" || return 1
		finish "$kind.alone" || return 1
	done
}

@test "a call that has moved a part of its bytes is not cut short" {
	whole write-much writev-much send-much sendmsg-much sendmmsg-much sendfile-much recv-all recvmsg-all
}

@test "a call that waits for more than a byte is not cut short: SO_RCVLOWAT, a terminal's VMIN" {
	whole recv-low read-low read-raw
}

@test "a call that submits to io_uring and waits is not cut short" {
	start ring "$TARGETS/sleeper" io_uring_enter-submit
	[[ $pid != none ]] || skip "io_uring_setup fails here"
	tell ring release "good 0 0"
	finish ring
	whole io_uring_enter-submit
}

# Nearly every stop finds this one within its call, awake or about to be. The rest is to be moved
# within 0.3 s, also on a busy machine: sixteen turns of the reader.
@test "a call that is in the middle of its bytes is finished: a single thread that writes to a pipe" {
	local rounds=5
	start writer /usr/bin/python3 -c "
import os, select, sys
slow, own = os.pipe()
reader = os.fork()
if not reader:
	os.close(own)
	got = 0
	while data := os.read(slow, 16384):
		got += len(data)
	os._exit(0 if got % (1 << 18) == 0 else 1)
os.close(slow)
os.write(1, b'ready %d\n' % os.getpid())
calls = short = 0
while not select.select([0], [], [], 0)[0]:
	short += os.write(own, b'x' * (1 << 18)) != 1 << 18
	calls += 1
sys.stdin.readline()
os.close(own)
os.write(1, b'wrote %d %d %d\n' % (short, os.waitpid(reader, 0)[1], calls))
sys.stdin.readline()
"
	within 60 "$TORTURE/stops" limpet "$pid" $rounds >stops.say 3>&-
	nothing_of_ours "$pid"
	tell writer "done" "wrote 0 0"
	echo "# figures: $(<stops.say) stops and microseconds, in ${answer##* } calls" >&3
	finish writer
}

# is_writing BYTES: it waits in write(2) for room.
is_writing() {
	[[ $(</proc/"$pid"/syscall) =~ ^1\ 0x[0-9a-f]+\ 0x[0-9a-f]+\ $(printf '0x%x' "$1")\  ]]
}

@test "a capture that ends while a call would be cut short: the agent stays, and is removed later" {
	local bytes=1048576 reader
	mkfifo slow
	start writer /usr/bin/python3 -c "
import os, sys
slow = os.open('slow', os.O_RDWR)
os.write(1, b'ready %d\\n' % os.getpid())
for line in sys.stdin:
	if line == 'quit\\n':
		break
	os.write(1, b'wrote %d\\n' % os.write(slow, b'x' * $bytes))
"
	attach "$pid" --attach-timeout $((2 * LIMPET_TEST_PATIENCE))s
	printf 'write\n' >&"${in_of[writer]}"
	wait_until 20 is_writing "$bytes"
	stop "$pid" 5
	grep -qE "its thread $pid waits in write\(2\), which a stop would cut short" "$work/attach.$captures.err"
	grep -q "the agent stays in process $pid, switched off" "$work/attach.$captures.err"
	is_writing "$bytes"
	exec {reader}<slow
	same "bytes" "$(head -c "$bytes" <&"$reader" | wc -c)" "$bytes"
	exec {reader}<&-
	heard writer "wrote $bytes"
	cleaned_up "$pid"
	finish writer
}

# A request that a stop withdraws comes again.
@test "a call that waits for a seccomp supervisor is asked about once" {
	start both "$TARGETS/supervised"
	attach "$pid" "${patiently[@]}"
	stop "$pid"
	within 30 "$LIMPET" doctor "$pid" >doctor.say
	grep -q "seccomp: its filter lets every call" doctor.say || fail "$(<doctor.say)"
	within 30 "$LIMPET" stacks "$pid" --json >stacks.json
	json_says --argjson tid "$ready" '.threads[] | select(.tid == $tid) | .missing == "system-call"' <stacks.json ||
		fail "$(<stacks.json)"
	tell both asked "asked 1"
	tell both answer answered
	nothing_of_ours "$pid"
	finish both
}

@test "a single thread that waits for a seccomp supervisor is left alone, with words" {
	start alone "$TARGETS/supervised" --alone
	refused 3 "each thread waits in a call" "$LIMPET" attach --attach-timeout 300ms -o never.limpet "$pid"
	run within 30 "$LIMPET" attach --assume-seccomp-ok --attach-timeout 300ms -o never.limpet "$pid"
	[[ $status == 1 && $output == *"its thread $pid waits for a seccomp supervisor, which a stop would ask twice"* ]] ||
		fail "$output"
	run within 30 "$LIMPET" doctor "$pid"
	[[ $status == 3 && $output == *"each thread waits in a call"* ]] || fail "$output"
	nothing_of_ours "$pid"
	tell alone asked "asked 1"
	tell alone answer answered
	finish alone
}

@test "every kind that the sleeper knows is tested here" {
	local kind kinds=0
	for kind in $("$TARGETS/sleeper" --list); do
		kinds=$((kinds + 1))
		grep -qE "^	(blocked|whole) (.* )?$kind( |\$)" "$BATS_TEST_FILENAME" || fail "$kind is not tested"
	done
	((kinds)) || fail "the sleeper knows none"
}
