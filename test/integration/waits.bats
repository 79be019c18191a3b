#!/usr/bin/env bats
# A program that limpet cannot use for a while: the dynamic linker's lock or malloc's is held, or every
# thread is where nothing may be hijacked. limpet comes again until --attach-timeout, then gives up with
# words, and the program is as it was; let go in time, it is captured.
#
# How long it waits is said by a clock that only waiting moves (test/targets/instead.c).
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

# holding MODE: sets `pid`.
holding() {
	start holder "$TARGETS/holder" "$1" "$TARGETS/slow-plugin.so" || return 1
	tell holder "work 20" worked || return 1
	tell holder hold "" || return 1
	[[ $answer != none* ]] || skip "userfaultfd is not allowed here: ${answer#none }"
	[[ $answer == holding ]] || fail "holder said '$answer'"
}

gives_up_once() {
	INSTEAD_CLOCK=waited.json LD_PRELOAD=$TARGETS/instead.so \
		LIMPET_LOAD=${load-} refused 1 "$2" "$LIMPET" attach --attach-timeout 700ms -o never.limpet "$pid" || return 1
	[[ ${stderr_lines[1]} == *--attach-timeout* && ! -e never.limpet ]] || fail "$stderr" || return 1
	waited_as_told "$1"
}

# gives_up MODE REGEX: nothing is changed, neither then nor when the program is let go, which works.
gives_up() {
	local mode=$1 regex=$2 tries
	holding "$mode" || return 1
	look "$pid" || return 1
	# A thread that gets no processor is waited for instead.
	for ((tries = 0; tries < 5; tries++)); do
		gives_up_once "$mode" "$regex" >once.say 2>&1 && break
	done
	((tries < 5)) || fail "$(<once.say)" || return 1
	look_again "$mode" || return 1
	tell holder release released || return 1
	wait_until 20 nothing_of_ours "$pid" 2>/dev/null || nothing_of_ours "$pid" || return 1
	captured || return 1
	finish holder
}
# A thread that waits for malloc's lock in our stead comes home only when it has got it.
look_again() {
	[[ $1 == malloc-alone ]] || unchanged "$pid"
}

# waited_as_told MODE: until the limit, by many pauses, and no longer than the last of them. A thread that waits in our
# stead has a second at least, and is looked at meanwhile.
waited_as_told() {
	local least=10 most=800
	if [[ $1 == malloc-alone ]]; then
		least=0 most=1100
	fi
	json_says --argjson least $least --argjson most $most '.pauses >= $least and .pauses < 400 and
		.milliseconds >= 700 and .milliseconds <= $most' <waited.json || fail "it waited: $(<waited.json)"
}

# work_recorded: what it does now is in the capture, which ends well.
work_recorded() {
	tell holder "work 500" worked || return 1
	stop "$pid" || return 1
	good_capture || return 1
	same "blocks" "$(($(site_sum holder_work allocations) >= 500))" 1 || return 1
	nothing_of_ours "$pid"
}

# captured: from here on, all is well.
captured() {
	attach "$pid" || return 1
	work_recorded
}

# It has tried, backed off and tried again: each pause is one voluntary switch.
waits() {
	local switches
	if ended "$limpet_job"; then
		fail "limpet attach ended early"
		return 0
	fi
	[[ -S $LIMPET_RUNTIME_DIR/$pid.sock ]] || return 1
	switches=$(sed -n 's/^voluntary_ctxt_switches:[[:space:]]*//p' "/proc/$limpet_job/status")
	((switches_then > 0 && switches >= switches_then + 8)) && return 0
	((switches_then > 0)) || switches_then=$switches
	return 1
}

# comes_again MODE: it is let go while limpet waits.
comes_again() {
	local switches_then=0
	holding "$1" || return 1
	trace=$work/patient.limpet
	LIMPET_LOAD=${load-} "$LIMPET" attach "${patiently[@]}" -o "$trace" "$pid" >patient.say 2>patient.err \
		</dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 30 waits || return 1
	tell holder release released || return 1
	wait_until 60 capturing "$pid" || return 1
	work_recorded || return 1
	finish holder
}

# bats test_tags=release
@test "a slow constructor holds the dynamic linker's lock: given up, nothing changed" {
	gives_up loader "dynamic linker"
}

@test "a slow constructor holds the dynamic linker's lock, and lets go in time" {
	comes_again loader
}

# captured_meanwhile MODE: and let go, during another capture.
captured_meanwhile() {
	holding "$1" || return 1
	attach "$pid" || return 1
	stop "$pid" || return 1
	good_capture || return 1
	nothing_of_ours "$pid" || return 1
	attach "$pid" || return 1
	tell holder release released || return 1
	work_recorded || return 1
	finish holder
}

# It holds the second of the linker's locks, which dlopen takes as well as the first.
@test "a callback of dl_iterate_phdr that takes long, by dlopen: given up, nothing changed" {
	load=dlopen gives_up loader-walk "dynamic linker"
}

@test "a callback of dl_iterate_phdr that takes long: captured meanwhile" {
	captured_meanwhile loader-walk
}

# The agent, and what it calls, need no memory of the program's.
@test "every thread inside malloc or waiting for its lock: captured meanwhile" {
	captured_meanwhile malloc
}

@test "malloc's lock is held, and a thread is free: captured meanwhile" {
	captured_meanwhile malloc-alone
}

# bats test_tags=release
@test "every thread inside malloc or waiting for its lock, by dlopen: given up, nothing changed" {
	load=dlopen gives_up malloc "safe point"
}

# bats test_tags=check
@test "every thread inside malloc or waiting for its lock, by dlopen, and let go in time" {
	load=dlopen comes_again malloc
}

@test "it is stopped, and its threads stand inside malloc, by dlopen: given up at once, with the way out" {
	holding malloc
	kill -STOP "$pid"
	wait_until 10 grep -q '^State:[[:space:]]T' "/proc/$pid/status"
	look "$pid"
	LIMPET_LOAD=dlopen refused 1 "is stopped, and its thread [0-9]+ stands" "$LIMPET" attach -o never.limpet "$pid"
	[[ ${stderr_lines[1]} == *"kill -CONT $pid" ]]
	unchanged "$pid"
	kill -CONT "$pid"
	tell holder release released
	captured
	finish holder
}

# bats test_tags=release
@test "malloc's lock is held, and a thread that is free waits for it in our stead, by dlopen: given up, clean afterwards" {
	load=dlopen gives_up malloc-alone "lock"
}

@test "malloc's lock is held, a thread that is free waits for it, by dlopen, and it is let go in time" {
	load=dlopen comes_again malloc-alone
}

# bats test_tags=release
@test "every thread in D state, waiting for a vfork child: given up, nothing changed" {
	gives_up vfork "a vfork child"
}

@test "every thread in D state, and let go in time" {
	comes_again vfork
}

@test "every thread in a signal handler, on an alternate stack: given up, nothing changed" {
	gives_up handler "signal handler"
}

@test "every thread in a signal handler, on an alternate stack, and let go in time" {
	comes_again handler
}

# What it interrupted is known down to its root, and is no place where one may not be.
@test "every thread in a signal handler, on the stack of what it interrupted: captured" {
	holding handler-below
	attach "$pid"
	tell holder release released
	tell holder "work 500" worked
	stop "$pid"
	good_capture
	same "blocks" "$(($(site_sum holder_work allocations) >= 500))" 1
	nothing_of_ours "$pid"
	finish holder
}

# The last one that is tried may be the main thread, which listens in a handler.
# bats test_tags=release
@test "every thread on a coroutine's stack: given up, nothing changed" {
	gives_up coroutine "on one that is not the thread's own|in a signal handler"
}

@test "every thread on a coroutine's stack, and the main thread comes back in time" {
	comes_again coroutine
}

@test "every thread on a coroutine's stack in an array of its own frames: given up, nothing changed" {
	gives_up array "on one that is not the thread's own"
}

@test "every thread near the end of a stack of the program's, with another's memory below: given up, nothing changed" {
	gives_up pool "short of stack|in a signal handler"
}

# bats test_tags=release
@test "every thread short of stack: given up, nothing changed" {
	gives_up stack "short of stack|in a signal handler"
}

@test "every thread short of stack, and the main thread comes back in time" {
	comes_again stack
}

# At its start the kernel gives the stack of the main thread 132 KiB.
@test "the only thread stands below a large array of main(), on a stack that was touched no further: captured" {
	start plain "$TARGETS/plain" 1000000
	attach "$pid"
	tell plain "run 1000" ran
	stop "$pid"
	good_capture
	same "plain_resize" "$(site_sum plain_resize live_allocations)" 100
	nothing_of_ours "$pid"
	finish plain
}

@test "the same, and limpet's own RLIMIT_STACK is smaller than the stack: captured" {
	start plain "$TARGETS/plain" 1000000
	within 60 bash -c 'ulimit -S -s 512; exec "$@"' - "$LIMPET" attach -q -d 100ms -o short.limpet "$pid"
	nothing_of_ours "$pid"
	finish plain
}

@test "the same, and RLIMIT_STACK leaves no room: given up, nothing changed" {
	start plain env -i bash -c 'ulimit -s 1000; exec "$@"' - "$TARGETS/plain" 1000000
	look "$pid"
	refused 1 "short of stack" "$LIMPET" attach --attach-timeout 700ms -o never.limpet "$pid"
	unchanged "$pid"
	tell plain "run 10" ran
	finish plain
}

# blind_refuses WHERE POINTER WORDS: its only thread waits where nobody can follow its frames.
blind_refuses() {
	local tries
	tell blind "wait $1 $2" waiting || return 1
	look "$pid" || return 1
	# On a busy machine the thread may get no processor in that time.
	for ((tries = 0; tries < 20; tries++)); do
		LIMPET_LOAD=${load-} INSTEAD_CLOCK=waited.json LD_PRELOAD=$TARGETS/instead.so run --separate-stderr within 60 \
			"$LIMPET" attach --partial --attach-timeout 700ms -o never.limpet "$pid"
		[[ $stderr == *"could be stopped in time"* ]] || break
	done
	[[ $status == 1 && $stderr == *"came to a safe point in time"*"; the last one, thread $pid, stood $3)"* && ! -e never.limpet ]] ||
		fail "in $1, frame pointer $2: it ended with $status: $stderr" || return 1
	unchanged "$pid" || return 1
	tell blind "" "done"
}

@test "code that nobody has described, in the middle of malloc or of a handler: given up, nothing changed" {
	local pointer
	start blind env LD_PRELOAD="$TARGETS/blind-malloc.so" "$TARGETS/blind"
	for pointer in one zero kept main; do
		load=dlopen blind_refuses malloc $pointer "in the allocator" || return 1
		blind_refuses signal $pointer "in a signal handler" || return 1
	done
	finish blind
}

@test "code that nobody has described, and nothing in the middle of which one may not be: captured" {
	local pointer
	start blind "$TARGETS/blind"
	for pointer in one zero kept; do
		tell blind "wait main $pointer" waiting
		attach "$pid" --partial
		tell blind "" "done"
		stop "$pid"
		good_capture
	done
	finish blind
	start inside env LD_PRELOAD="$TARGETS/blind-malloc.so" "$TARGETS/blind"
	for pointer in one zero kept main; do
		tell inside "wait malloc $pointer" waiting
		attach "$pid" --partial
		tell inside "" "done"
		stop "$pid"
		nothing_of_ours "$pid"
	done
	finish inside
}

detaching() {
	"$LIMPET" status "$1" --json 2>/dev/null | json_says '.captures[0].state == "detaching"'
}

@test "a capture ends when it is told to, not when its agent is gone: what is allocated in between is not in the trace" {
	local stop_job
	start holder "$TARGETS/holder" handler
	attach "$pid"
	tell holder hold holding
	tell holder "work 100" worked
	within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err 3>&- &
	stop_job=$!
	wait_until 60 detaching "$pid"
	tell holder "work 5000" worked
	tell holder release released
	attached 0
	wait "$stop_job"
	good_capture
	same "blocks" "$(site_sum holder_held_work allocations)" 100
	nothing_of_ours "$pid"
	finish holder
}

# Nearly all of the time it is in a hook: waiting for room, if nobody reads.
@test "a program that does nothing but allocate is left, and its capture is complete" {
	start busy "$TARGETS/busy"
	for _ in 1 2 3; do
		attach "$pid"
		stop "$pid"
		good_capture
		nothing_of_ours "$pid"
	done
}

@test "its malloc faults where limpet's dlopen calls it: said, with the lock that is held from then on; not where the agent is mapped" {
	cat >shy.c <<'END'
#include <dlfcn.h>
#include <stddef.h>
int shy;
void *malloc(size_t bytes)
{
	static void *(*original)(size_t);
	if (shy)
		*(volatile int *)8 = 1;
	if (!original)
		original = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	return original(bytes);
}
END
	cat >still.c <<'END'
#include <stdio.h>
#include <unistd.h>
extern int shy;
int main(void)
{
	char byte;
	printf("ready %d\n", getpid());
	fflush(stdout);
	shy = 1;
	return read(0, &byte, 1) < 0;
}
END
	gcc -O1 -D_GNU_SOURCE -fPIC -shared -fno-builtin -o shy.so shy.c
	gcc -O1 -D_GNU_SOURCE -o still still.c ./shy.so
	start still ./still
	LIMPET_LOAD=dlopen run --separate-stderr "$LIMPET" attach -o none.limpet "$pid"
	[[ $status == 1 && $stderr == *"faulted: its thread $pid holds the dynamic linker's lock"*"hint: restart the program"* ]] ||
		fail "$status: $stderr"
	LIMPET_LOAD=dlopen run --separate-stderr "$LIMPET" attach --attach-timeout 1s -o none.limpet "$pid"
	[[ $status == 1 && $stderr == *"lock of process $pid was held by its thread $pid "*"only a restart"* ]] ||
		fail "$status: $stderr"
	finish still
	start another ./still
	load=map attach "$pid"
	stop "$pid"
	nothing_of_ours "$pid"
	finish another
}
