#!/usr/bin/env bats
# Programs that do what few do, and that an attach must not harm: captured, or refused before anything is touched.

load helpers
setup() { begin; }
teardown() { end; }

# legal MODE: sets `pid`.
legal() {
	start legal "$TARGETS/legal" "$1" || return 1
	[[ $pid != none ]] || skip "this kernel does not let it: $ready"
	tell legal check fine || return 1
	tell legal "work 10" worked
}

works_on() {
	tell legal check fine || return 1
	tell legal "work 10" worked || return 1
	finish legal
}

# is_refused MODE ID REGEX
is_refused() {
	legal "$1" || return 1
	refused_by_both "$pid" "$2" "$3" || return 1
	works_on
}

@test "system calls that are handed to a handler (Wine): not hijacked, and they still are" {
	legal dispatch
	refused 1 "handing its system calls to a handler of its own" \
		"$LIMPET" attach -o never.limpet --attach-timeout 1s "$pid"
	[[ ! -e never.limpet ]]
	works_on
}

@test "system calls of another thread that are handed to a handler: captured, and they still are" {
	legal dispatch-thread
	attach "$pid"
	tell legal "work 100" worked
	stop "$pid"
	good_capture
	same "blocks" "$(site_sum legal_work allocations)" 100
	nothing_of_ours "$pid"
	works_on
}

@test "its thread pointer leads elsewhere for a while: not hijacked, and no handler is lost" {
	legal pointer
	refused 1 "on thread-local storage that is not the C library's" \
		"$LIMPET" attach -o never.limpet --attach-timeout 1s "$pid"
	[[ ! -e never.limpet ]]
	works_on
}

@test "the processor checks alignment for it: captured, and no handler is lost" {
	legal alignment
	attach "$pid"
	tell legal "work 100" worked
	stop "$pid"
	good_capture
	same "blocks" "$(site_sum legal_work allocations)" 100
	nothing_of_ours "$pid"
	works_on
}

@test "a collector that lists its modules and reads them later: the agent is in no list" {
	start lister "$TARGETS/lister"
	tell lister load loaded
	LIMPET_LOAD=dlopen run "$LIMPET" attach -o never.limpet "$pid"
	[[ $status == 3 && $output == *"garbage collector"* ]] || fail "$status: $output"
	attach "$pid"
	tell lister list listed
	tell lister work worked
	stop "$pid"
	tell lister read read
	nothing_of_ours "$pid"
	finish lister
}

@test "a collector that is loaded during the capture: an agent in its list stays, and can be read" {
	start mapped "$TARGETS/lister"
	attach "$pid"
	tell mapped load loaded
	tell mapped list listed
	stop "$pid" 4 # the collector's own memory is not followed
	nothing_of_ours "$pid"
	tell mapped read read
	finish mapped
	start lister "$TARGETS/lister"
	load=dlopen attach "$pid"
	tell lister load loaded
	tell lister list listed
	stop "$pid" 5
	grep -q 'garbage collector' "attach.$captures.err"
	tell lister read read
	refused 5 "garbage collector" "$LIMPET" stop "$pid"
	tell lister read read
	finish lister
}

@test "a malloc of the program's own, whose lock the only thread holds: captured" {
	start ownheap "$TARGETS/ownheap"
	tell ownheap hold held
	attach "$pid"
	tell ownheap go free
	tell ownheap "work 100" worked
	tell ownheap hold held
	stop "$pid"
	tell ownheap go free
	good_capture
	same "blocks" "$(site_sum ownheap_work allocations)" 100
	nothing_of_ours "$pid"
	finish ownheap
}

@test "the time stamp counter is out of its reach: captured, and it still is" {
	legal tsc
	attach "$pid"
	tell legal "work 100" worked
	stop "$pid"
	good_capture
	same "blocks" "$(site_sum legal_work allocations)" 100
	nothing_of_ours "$pid"
	works_on
}

@test "a thread enters strict seccomp during the capture: captured, and it goes on" {
	legal strict-later
	attach "$pid"
	tell legal "work 100" worked
	tell legal strict strict
	tell legal "work 100" worked
	stop "$pid"
	good_capture
	same "blocks" "$(site_sum legal_work allocations)" 400
	nothing_of_ours "$pid"
	works_on
}

@test "another thread is in strict seccomp: refused, and it goes on" {
	is_refused strict-thread seccomp "strict mode"
}

@test "a thread that libc knows nothing of, in malloc: refused, and it goes on" {
	is_refused raw raw-thread "thread.*C library"
}

@test "it awaits a message (mq_notify): not attached to, and told of it" {
	legal message
	tell legal await awaited
	refused_by_both "$pid" message-queue 'descriptor [0-9]+ \(mq_notify\(3\)\)'
	tell legal message told
	attach "$pid"
	tell legal "work 100" worked
	stop "$pid"
	good_capture
	tell legal await awaited
	tell legal message told
	works_on
}

@test "it awaits a message when the capture ends: left, and told of it" {
	legal message
	attach "$pid"
	tell legal "work 100" worked
	tell legal await awaited
	stop "$pid"
	good_capture
	tell legal message told
	works_on
}

@test "it maps its own memory where the attach left some: left, and that memory stays" {
	local range from_end
	# The argument of the stub, at the end, and the middle of its stack.
	for from_end in 8192 65536; do
		legal overlay
		attach "$pid"
		tell legal "work 100" worked
		range=$(sed -nE 's/^([0-9a-f]+-[0-9a-f]+) .w-s .*\/memfd:limpet-shared.*/\1/p' "/proc/$pid/maps" | head -n 1)
		[[ $range ]] || fail "$(<"/proc/$pid/maps")"
		tell legal "overlay $((0x${range#*-} - from_end))" overlaid
		# What is left of the stack is removed by the next one.
		stop "$pid" 5
		tell legal check fine
		within 60 "$LIMPET" stop "$pid"
		nothing_of_ours "$pid"
		works_on
		rm -f legal.in legal.out
	done
}

@test "a process that shares its memory and is no thread: not attached to, and captured once that has ended" {
	legal sharer
	tell legal share shared
	look "$pid"
	"$LIMPET" doctor "$pid" >doctor.text
	[[ $(<doctor.text) == *"process ${answer#shared } shares its memory"* ]] || fail "$(<doctor.text)"
	refused 1 "process ${answer#shared } shares the memory of process $pid" \
		"$LIMPET" attach -o never.limpet --attach-timeout 1s "$pid"
	[[ ! -e never.limpet ]]
	unchanged "$pid"
	tell legal unshare alone
	attach "$pid"
	tell legal "work 100" worked
	stop "$pid"
	good_capture
	same "blocks" "$(site_sum legal_work allocations)" 100
	nothing_of_ours "$pid"
	works_on
}

@test "a process that shares its memory and is no thread: the agent stays as long as that does" {
	legal sharer
	attach "$pid" --attach-timeout 5s
	tell legal "work 100" worked
	tell legal share shared
	local sharer=${answer#shared }
	stop "$pid" 5
	grep -q "process $sharer shares the memory of process $pid" "attach.$captures.err"
	report
	expect '.capture.complete and (.capture.agent_unloaded | not)'
	tell legal "work 100" worked
	tell legal unshare alone
	within 60 "$LIMPET" stop "$pid"
	nothing_of_ours "$pid"
	works_on
}

@test "memory that grows downwards, right where the kernel would put ours: captured, and it grows" {
	legal growing
	attach "$pid"
	tell legal grow grown
	tell legal "work 100" worked
	stop "$pid"
	good_capture
	same "blocks" "$(site_sum legal_work allocations)" 100
	nothing_of_ours "$pid"
	works_on
}

@test "a message that waits for dlerror() is there after the attach, and after the end" {
	legal dlerror
	attach "$pid"
	tell legal check fine
	tell legal "work 100" worked
	stop "$pid"
	good_capture
	same "blocks" "$(site_sum legal_work allocations)" 100
	nothing_of_ours "$pid"
	works_on
}

@test "a preloaded dlopen whose lock is held: libc's own is called" {
	start legal env LD_PRELOAD="$TARGETS/held-dlopen.so" "$TARGETS/legal" preloaded
	attach "$pid" --attach-timeout 5s
	tell legal "work 100" worked
	stop "$pid"
	good_capture
	same "blocks" "$(site_sum legal_work allocations)" 100
	nothing_of_ours "$pid"
	works_on
}

# locked_bytes: what of the program's memory may not be paged out.
locked_bytes() {
	echo $(($(sed -n 's/^VmLck:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status") * 1024))
}

# ours_is_not_locked: while it is captured, and works.
ours_is_not_locked() {
	local before
	before=$(locked_bytes)
	attach "$pid" || return 1
	tell legal "work 100" worked || return 1
	(($(locked_bytes) < before + (2 << 20))) || fail "locked: $(locked_bytes), and $before before" || return 1
	stop "$pid" || return 1
	good_capture || return 1
	same "blocks" "$(site_sum legal_work allocations)" 100 || return 1
	same "locked bytes" "$(locked_bytes)" "$before" || return 1
	works_on
}

@test "all memory is locked, also what comes later: ours is not, but for what is loaded" {
	legal locked
	ours_is_not_locked
}

@test "what comes later will be locked, and nothing has come: ours is not locked, but for what is loaded" {
	legal locked-future
	same "locked bytes" "$(locked_bytes)" 0
	ours_is_not_locked
}

# leaves_a_hook WHERE: the capture ends while a thread is in the middle of a hook, and runs above it.
leaves_a_hook() {
	printf '%s\n' "allocator above" "above_take malloc(size)" "above_give free(p)" >above.list
	start above "$TARGETS/above"
	attach "$pid" --alloc-functions above.list --attach-timeout 5s -q
	tell above "work 100" worked
	tell above "$1" inside
	tell above "work 100" worked
	"$LIMPET" stop "$pid" >stop.said 2>&1 || [[ $? == 5 ]]
	exit_status_of "$limpet_job" 60
	same "it stays for who comes back into it" "$status" 5
	tell above back outside
	tell above "work 100" worked
	report
	# Those from above were not recorded, and that is said.
	expect '.totals.allocations >= 100 and .capture.end == "stop" and (.capture.complete | not)'
	cleaned_up "$pid"
	tell above "work 100" worked
	nothing_of_ours "$pid"
	finish above
}

@test "a handler on a stack above the hook that it interrupted: the agent stays until it has come back" {
	leaves_a_hook handler
}

@test "a coroutine that is left in the middle of a hook for a stack above: the agent stays until it has come back" {
	leaves_a_hook coroutine
}

# counts_unseen LEAST COMMAND ANSWER: what is not recorded is counted, and the program works on.
counts_unseen() {
	printf '%s\n' "allocator above" "above_take malloc(size)" "above_give free(p)" >above.list
	start above "$TARGETS/above"
	attach "$pid" --alloc-functions above.list --attach-timeout 20s -q
	tell above "$2" "$3"
	tell above "work 100" worked
	"$LIMPET" stop "$pid" >stop.said 2>&1 || [[ $? == 4 ]]
	exit_status_of "$limpet_job" 60
	same "not complete" "$status" 4
	report
	expect '.capture.unseen_calls >= $least and (.capture.complete | not)' --argjson least "$1"
	nothing_of_ours "$pid"
	tell above "work 100" worked
	finish above
}

@test "a coroutine on a stack below the hook that was left for it: what it does is counted, if not recorded" {
	counts_unseen 200 "below 100" worked
}

@test "a coroutine that goes on in another thread, in the middle of a hook: its end is counted" {
	counts_unseen 1 moved outside
}
