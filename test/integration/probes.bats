#!/usr/bin/env bats
# Another tool's probes (uprobes and uretprobes, as perf, bpftrace and bcc set them) on the functions that limpet
# hooks: whenever they are set and removed, the program does what it would do without limpet.
# time-limit: 300

load helpers
setup() {
	[[ -e /sys/bus/event_source/devices/uprobe/type ]] || skip "this kernel has no uprobes"
	begin
}
teardown() { end; }

: "${PROBE_ROUNDS:=3}"
names=(malloc free calloc realloc posix_memalign aligned_alloc)

# probed PID FILE: starts `prober`.
probed() {
	start prober "$TARGETS/prober" "$1" "$2" "${names[@]}"
}

libc_of() {
	ldd "$1" | sed -n 's/.*libc\.so\.6 => \([^ ]*\) .*/\1/p' | xargs readlink -f
}

# counted_beside COMMAND ANSWER COMMAND ANSWER: an exact capture between two commands of the prober's.
counted_beside() {
	start storm "$TARGETS/own-allocator" --threads 4 --cross
	text_of "$pid" own-allocator >text.before
	local target=$pid
	probed "$target" "$TARGETS/own-allocator"
	tell prober "$1" "$2"
	counted_phase storm 3000
	tell prober "$3" "$4"
	unchanged_text "$target" own-allocator
	nothing_of_ours "$target"
	finish storm
	finish prober
}

# bats test_tags=check
@test "probes on an allocator inside the program, there before the capture: its counts are exact, and its code is as it was" {
	counted_beside entries on off off
}

@test "probes on an allocator inside the program that come and go: its counts are exact, and its code is as it was" {
	counted_beside "random-entries 7" random calm calm
}

@test "probes on an allocator inside the program, set during the capture and removed after it, and the reverse" {
	start storm "$TARGETS/own-allocator" --threads 4 --cross
	text_of "$pid" own-allocator >text.before
	local target=$pid
	probed "$target" "$TARGETS/own-allocator"
	attach "$target"
	tell storm "run 1000" ran
	tell prober both on
	tell storm "run 1000" ran
	stop "$target"
	tell storm "run 1000" ran
	nothing_of_ours "$target"
	attach "$target"
	tell storm "run 1000" ran
	tell prober off off
	tell storm "run 1000" ran
	stop "$target"
	tell storm "run 1000" ran
	nothing_of_ours "$target"
	unchanged_text "$target" own-allocator
	finish storm
	finish prober
}

# rounds_with JOB FILE BUILD [OPTION...]: captures from beginning to end while probes come and go.
rounds_with() {
	local job=$1 file=$2 target
	start "$job" "${@:3}"
	target=$pid
	probed "$target" "$file"
	tell "$job" go going
	tell prober "random 11" random
	rounds "$target" "$PROBE_ROUNDS"
	tell prober calm calm
	((${answer#calm } > 0))
	tell "$job" hold held
	nothing_of_ours "$target"
	finish "$job"
	finish prober
}

@test "probes on the C library's functions come and go, on calls and on returns, while captures come and go" {
	rounds_with storm "$(libc_of "$TARGETS/storm")" "$TARGETS/storm" --threads 8 --cross --signals --rate 60000
}

# Most of the time some thread is in a function whose return address is the kernel's.
# bats test_tags=release
@test "probes on all returns of the C library's functions stay, while captures come and go" {
	start storm "$TARGETS/storm" --threads 8 --cross --signals
	local target=$pid
	probed "$target" "$(libc_of "$TARGETS/storm")"
	tell prober returns on
	tell storm go going
	rounds "$target" "$PROBE_ROUNDS"
	tell storm hold held
	tell prober off off
	nothing_of_ours "$target"
	finish storm
	finish prober
}

# bats test_tags=release
@test "the same on an allocator inside the program" {
	rounds_with storm "$TARGETS/own-allocator" "$TARGETS/own-allocator" --threads 8 --cross --signals --rate 60000
}

@test "the same in a static program" {
	names=(malloc free calloc realloc)
	rounds_with storm "$TARGETS/storm-static-pie" "$TARGETS/storm-static-pie" --threads 4 --cross --rate 60000
}

# The kernel does what the file's jump does: past the hook.
@test "a function that is nothing but a jump: a probe hides its calls, which is told, and harms nobody" {
	start storm "$TARGETS/storm-musl-static" --threads 4 --cross
	text_of "$pid" storm-musl-static >text.before
	local target=$pid
	names=(malloc free calloc realloc)
	probed "$target" "$TARGETS/storm-musl-static"
	attach "$target"
	tell storm "run 1000" ran
	tell prober both on
	tell storm "run 1000" ran
	stop "$target" 4
	report
	expect '(.capture.complete | not) and (.capture.incomplete_reasons | any(. == "functions"))'
	tell storm "run 1000" ran
	tell prober off off
	tell storm "run 1000" ran
	unchanged_text "$target" storm-musl-static
	nothing_of_ours "$target"
	# There before the capture, it is refused by that name.
	tell prober both on
	refused_by_both "$target" allocator "malloc.*another tool has set a breakpoint"
	tell prober off off
	finish storm
	finish prober
}

@test "a stack through a function whose return another tool watches" {
	start storm "$TARGETS/storm" --threads 2
	local target=$pid
	names=(storm_malloc)
	probed "$target" "$TARGETS/storm"
	tell prober returns on
	attach "$target"
	tell storm "run 1000" ran
	stop "$target"
	tell prober off off
	report
	expect '[.sites[].stack | select(any(.function == "storm_malloc"))] | length > 0 and
		all((map(.function) | index("[uprobes]")) - (map(.function) | index("storm_malloc")) == 1)'
	finish storm
	finish prober
}

# It keeps a copy of limpet's jump, and will write it again.
@test "a tool that has written over limpet's jump: its code is left alone, and the agent stays until it has gone" {
	start rewriter "$TARGETS/rewriter"
	attach "$pid"
	tell rewriter call "done 0"
	tell rewriter over "done 0"
	tell rewriter call "done 1"
	stop "$pid" 5
	[[ $(<attach.1.err) == *"another tool has changed it"* ]]
	tell rewriter call "done 2"
	tell rewriter back "done 2"
	tell rewriter call "done 2"
	within 60 "$LIMPET" stop "$pid" 2>second.err
	tell rewriter call "done 2"
	nothing_of_ours "$pid"
	finish rewriter
}
