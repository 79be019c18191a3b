#!/usr/bin/env bats
# What a trace keeps: sums alone, the newest events alone, every address.

load helpers
setup() { begin; }
teardown() { end; }

# capture FILE OPTION...: a run of the program that makes the same calls each time.
capture() {
	within 120 "$LIMPET" run -q -o "$1" --on-overload wait "${@:2}" -- "$TARGETS/kinds"
	trace=$work/$1
}

# figures: of the last report; what may differ from run to run left out: times, and with them the peak and
# what was temporary.
figures() {
	jq '{totals: .totals | del(.peak_bytes, .peak_bytes_min, .peak_bytes_max, .peak_seconds,
		.temporary_allocations), sizes: .sizes,
		complete: .capture.complete, exact: .capture.exact,
		sites: [.sites[] | {allocations, allocated_bytes, live_allocations, live_bytes,
			stack: [.stack[] | [.function, .module, .line]]}] | sort}' report.json
}

@test "--compact and --max-size: the same totals and live figures as a full recording" {
	capture full.limpet
	report
	expect '.capture.complete and (.capture.compact | not) and .totals.allocations > 100000'
	figures >full
	capture compact.limpet --compact
	report
	expect '.capture.compact and .capture.single_events_from_seconds == null'
	figures >compact
	diff -u full compact
	capture bounded.limpet --max-size 8MiB
	report
	figures >bounded
	diff -u full bounded
	# Half of the calls are by one site of a loop: full recording takes little for them, too.
	(($(stat -c %s compact.limpet) < $(stat -c %s full.limpet)))
}

@test "--max-size: the newest events stay, and sums and live blocks of all" {
	start storm "$TARGETS/storm" --threads 2
	attach "$pid" --max-size 8MiB
	tell storm "leak 40" leaked
	# More than two bytes an event.
	tell storm "run 2600000" ran
	wait_until 60 recorded "$pid" 5800000
	(($(stat -c '%b * %B' "$trace") < 9 << 20)) || fail "$(stat -c %b "$trace") blocks while it ran"
	tell storm "leak 60" leaked
	wait_until 60 so_far '.capture.end == "running" and .capture.single_events_from_seconds > 0 and .capture.exact'
	tell storm count '{'
	stop "$pid"
	(($(stat -c %s "$trace") <= 8 << 20)) || fail "$(stat -c %s "$trace") bytes"
	good_capture
	expect '.capture.exact and .capture.single_events_from_seconds > 0 and
		(.timeline[0].seconds < .capture.single_events_from_seconds)'
	same "leaks" "$(site_sum storm_leak live_allocations)" 100
	expect '.totals == .totals + ($count | {allocations, frees, allocated_bytes, freed_bytes, live_allocations, live_bytes})' \
		--argjson count "$answer"
	finish storm
}

# bats test_tags=release
@test "--max-size: a second reader finds the same live bytes" {
	printf 'leak 40\nrun 2600000\nleak 60\nquit\n' >commands
	trace=$work/bounded.limpet
	within 120 "$LIMPET" run -q -o "$trace" --max-size 8MiB --on-overload wait -- "$TARGETS/storm" --threads 2 <commands >run.say 2>run.err
	report
	"$root/scripts/limpet-trace-read" "$trace" >second.json
	json_says --slurpfile report report.json '.totals.live_bytes == $report[0].totals.live_bytes' <second.json
}

@test "--max-size on a file system that takes nothing back: refused" {
	if ! unshare --mount true 2>/dev/null; then
		skip "mounting is not allowed here"
	fi
	# /proc/self/fd of a pipe and the like are refused as outputs before; ramfs makes no holes.
	start storm "$TARGETS/storm"
	mkdir plain
	run unshare --mount bash -c "mount -t ramfs none '$work/plain' &&
		'$LIMPET' attach $pid --attach-timeout 10m --max-size 8MiB -o '$work/plain/t.limpet'; echo status \$?; ls '$work/plain'"
	[[ $output == *"cannot bound"*hint:*"status 1" ]] || fail "it said: $output"
	nothing_of_ours "$pid"
	finish storm
}

@test "addresses: each free's block is one that was allocated, and is of its site and size" {
	LIMPET_ADDRESSES=1 capture addresses.limpet
	report
	expect '.capture.complete'
	within 120 "$root/scripts/limpet-trace-read" "$trace" >second.json
	json_says --slurpfile report report.json '.paired_frees == $report[0].totals.frees and .wrong == []' <second.json ||
		fail "$(jq -c '{paired_frees, wrong}' second.json)"
	capture plain.limpet
	"$root/scripts/limpet-trace-read" "$trace" | json_says '.paired_frees == null'
}
