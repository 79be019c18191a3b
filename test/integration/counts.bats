#!/usr/bin/env bats
# What the report says is what the program counted, to the last byte. COUNT_TIMES: how many times as much it does.
# time-limit: 400

load helpers
setup() { begin; }
teardown() { end; }

: "${COUNT_TIMES:=1}"

# of_storm OPERATIONS STORM_OPTION...
of_storm() {
	start storm "$TARGETS/storm" "${@:2}" || return 1
	counted_phase storm $(($1 * COUNT_TIMES)) || return 1
	finish storm
}

# bats test_tags=check
@test "one thread" {
	of_storm 5000 --threads 1
}

# track: language | C, glibc | attach | slots
@test "four threads that free each other's blocks" {
	of_storm 5000 --threads 4 --cross
}

# bats test_tags=release
@test "sixteen threads and signal handlers that allocate" {
	of_storm 2500 --threads 16 --cross --signals
}

@test "threads that come and go" {
	of_storm 5000 --threads 8 --churn 700 --cross
}

# bats test_tags=release
@test "two hundred threads" {
	of_storm 125 --threads 200 --slots 64
}

@test "all that was allocated and freed again leaves nothing live" {
	start storm "$TARGETS/storm" --threads 2
	attach "$pid"
	tell storm "run 5000" ran
	tell storm drain drained
	stop "$pid"
	good_capture
	expect '.totals.live_bytes == 0 and .totals.live_allocations == 0'
	expect '.totals.allocations > 1000 and .totals.allocations == .totals.frees'
	expect '.totals.peak_bytes > 0 and .totals.peak_bytes <= .totals.allocated_bytes'
	expect '([.sites[].allocations] | add) == .totals.allocations'
	expect '([.sites[].allocated_bytes] | add) == .totals.allocated_bytes'
	expect '([.sizes[].allocations] | add) == .totals.allocations'
	expect '([.sizes[].allocated_bytes] | add) == .totals.allocated_bytes'
	finish storm
}

# bounded ANSWER: of the whole capture, the peak that the program said.
bounded() {
	expect '.totals | .peak_bytes_min <= .peak_bytes and .peak_bytes <= .peak_bytes_max and
		.peak_bytes_min <= $peak + 4096 and $peak <= .peak_bytes_max' --argjson peak "${1#ran }" || return 1
	expect '.capture.complete and .capture.exact'
}

@test "threads that take turns: the true peak is within its bounds" {
	start peaks "$TARGETS/peaks" 8
	attach "$pid"
	tell peaks "turns 20000" ran
	said=$answer
	stop "$pid"
	good_capture
	bounded "$said"
	attach "$pid"
	tell peaks "together 100" ran
	said=$answer
	stop "$pid"
	good_capture
	bounded "$said"
	finish peaks
}

@test "under load: a known site is exact and on top" {
	start storm "$TARGETS/storm" --threads 4 --cross --rate 300000
	tell storm go going
	attach "$pid"
	tell storm hold held
	tell storm "leak 20000" leaked
	tell storm go going
	# Some are frees, a few of older blocks.
	wait_until 60 recorded "$pid" 250000
	stop "$pid"
	tell storm hold held
	good_capture
	expect '.totals.allocations > 100000'
	expect '.sites[0].stack[0].function == "storm_leak"'
	expect '.sites[0].stack[0].file | endswith("storm.c")'
	expect '.sites[0].stack[0].line > 0'
	expect '.sites[0].allocations == 20000 and .sites[0].live_bytes == 20000000'
	expect '.capture.truncated_stacks == 0'
	finish storm
}

# The collector stands still while the program works: what is lost is counted, to the last call, and nobody suffers.
# bats test_tags=release
@test "overload: losses are counted, and the target is right" {
	local dropped
	start storm "$TARGETS/storm" --threads 8 --cross
	tell storm "run 1000" ran
	overload=drop attach "$pid" --memory 8MiB
	tell storm mark marked
	tell storm zero zeroed
	stand_still "$limpet_job" "$pid"
	tell storm "run 20000" ran
	kill -CONT "$limpet_job"
	tell storm "run 1000" ran
	tell storm count '{'
	stop "$pid" 4
	report
	expect '.capture.complete == false and .capture.agent_unloaded and .capture.dropped_events > 0'
	dropped=$(jq .capture.dropped_events report.json)
	same "events of the program" "$(jq .capture.events report.json) and $dropped" \
		"$(($(jq '.allocations + .frees + .foreign_frees' <<<"$answer") - dropped)) and $dropped"
	nothing_of_ours "$pid"
	# Full speed, and whatever comes of it.
	overload=drop attach "$pid"
	tell storm go going
	wait_until 60 recorded "$pid" 50000
	within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err || true
	exit_status_of "$limpet_job" 60
	report
	expect '.capture.complete == (.capture.dropped_events == 0)'
	expect '.capture.complete == ($status == "0")' --arg status "$status"
	[[ $status == 0 || $status == 4 ]]
	nothing_of_ours "$pid"
	tell storm hold held
	finish storm
}

@test "stacks are whole: twenty-three frames by sixty-four paths" {
	start storm "$TARGETS/storm" --threads 1
	attach "$pid"
	tell storm "run 30000" ran
	stop "$pid"
	good_capture
	expect '.capture.truncated_stacks == 0'
	expect '[.sites[] | select(any(.stack[]; .function == "storm_operate"))
		| [.stack[] | .function // "" | select(test("^(left|right)_"))] | join(" ")] | unique | length == 64'
	expect 'all(.sites[] | select(any(.stack[]; .function == "storm_operate"));
		([.stack[].function // "" | select(test("^(level|left|right|relay)_[0-5]$"))] | length) == 18)'
	expect 'all(.sites[] | select(any(.stack[]; .function == "storm_operate"));
		any(.stack[]; .function == "worker_main"))'
	finish storm
}

@test "a module that is loaded during the capture is seen" {
	start loader "$TARGETS/loader" "$TARGETS/plugin.so"
	attach "$pid"
	tell loader open opened
	tell loader "allocate 1000" allocated
	stop "$pid"
	good_capture
	# A thousand blocks, and the array that holds them.
	same "allocations of the module" "$(site_sum plugin_allocate allocations)" 1001
	same "bytes of the module" "$(site_sum plugin_allocate allocated_bytes)" $((1000 * 700 + 1000 * 8))
	tell loader free freed
	tell loader close closed
	finish loader
}

# glibc frees the text of the last error, and allocates that of the next.
@test "what dlsym allocates and frees while it finds nothing is counted, whatever the name" {
	start loader "$TARGETS/loader" "$TARGETS/plugin.so"
	tell loader open opened
	# The first error makes the thread's table, too.
	tell loader "miss 1" missed
	attach "$pid"
	tell loader "miss 1000" missed
	stop "$pid"
	good_capture
	same "texts of errors" "$(site_sum miss allocations)" 1000
	same "texts that are live" "$(site_sum miss live_allocations)" 1
	finish loader
}

@test "modules that come and go during the capture do no harm" {
	start loader "$TARGETS/loader" "$TARGETS/plugin.so"
	look "$pid"
	attach "$pid"
	tell loader "storm 200" stormed
	stop "$pid"
	report
	# Every call is in the trace. A module that lives for less than a millisecond may be gone
	# before its name is read: then its frames are addresses.
	expect ".totals.allocations >= 200 * 11 and .capture.complete"
	tell loader "storm 20" stormed
	finish loader
}

@test "a patched module that is unloaded before the detach does no harm" {
	start loader "$TARGETS/loader" "$TARGETS/plugin.so"
	tell loader open opened
	attach "$pid"
	tell loader "allocate 10" allocated
	tell loader free freed
	tell loader close closed
	stop "$pid"
	good_capture
	same "allocations of the module" "$(site_sum plugin_allocate allocations)" 11
	tell loader "storm 5" stormed
	finish loader
}

@test "addresses of the hooks that the program copied are put back" {
	start odd "$TARGETS/odd" --callbacks
	attach "$pid"
	tell odd copy copied
	tell odd "work 1000" worked
	stop "$pid"
	good_capture
	same "allocations through the table" "$(site_sum odd_work allocations)" 1000
	nothing_of_ours "$pid"
	tell odd "work 1000" worked
	finish odd
}
