#!/usr/bin/env bats
# Allocators inside of the program, or of a library that calls its own: hooked where their functions begin.
# time-limit: 400

load helpers
setup() { begin; }
teardown() { end; }

@test "jemalloc in a C program: exact counts, and its code is as it was" {
	start storm "$TARGETS/own-allocator" --threads 4 --cross
	text_of "$pid" own-allocator >text.before
	counted_phase storm 20000
	unchanged_text "$pid" own-allocator
	nothing_of_ours "$pid"
	finish storm
}

@test "jemalloc in a C program: signal handlers; capture upon capture" {
	start storm "$TARGETS/own-allocator" --threads 8 --cross --signals
	text_of "$pid" own-allocator >text.before
	tell storm go going
	rounds "$pid" 3
	tell storm hold held
	unchanged_text "$pid" own-allocator
	counted_phase storm 5000
	unchanged_text "$pid" own-allocator
	finish storm
}

# The dynamic linker allocates for each thread that is made, by the same functions: seen here, and not by
# the program.
@test "jemalloc in a C program: threads that come and go" {
	start storm "$TARGETS/own-allocator" --threads 8 --cross --churn 700
	attach "$pid"
	tell storm zero zeroed
	tell storm "run 10000" ran
	tell storm count '{'
	stop "$pid"
	good_capture
	local function
	for function in $(jq -r '.by_function | keys[]' <<<"$answer"); do
		same "allocations in $function" "$(site_sum "$function" allocations)" \
			"$(jq ".by_function.$function" <<<"$answer")" || return 1
	done
	(($(jq .totals.allocations report.json) >= $(jq .allocations <<<"$answer")))
	finish storm
}

@test "jemalloc in a C program: link-time optimization; stripped" {
	strip -o own-stripped "$TARGETS/own-allocator"
	start lto "$TARGETS/own-lto" --threads 2 --cross
	counted_phase lto 10000
	finish lto
	start stripped "$work/own-stripped" --threads 2 --cross
	stripped=true counted_phase stripped 10000
	finish stripped
}

@test "jemalloc in a C program: it is said before the capture and with it" {
	start storm "$TARGETS/own-allocator" --threads 2
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '.verdict == "ok" and ([.findings[] | select(.id == "allocator") | .text] |
		any(test("jemalloc is linked into the executable: [0-9]+ functions are hooked")))' <doctor.json ||
		fail "$(<doctor.json)"
	attach "$pid"
	tell storm "run 1000" ran
	# A jump where malloc begins, and only for now.
	text_of "$pid" own-allocator >text.during
	stop "$pid"
	text_of "$pid" own-allocator >text.before
	run ! cmp -s text.before text.during
	report
	expect '.capture.unseen_rss_share == null'
	finish storm
}

@test "jemalloc in a C program: a program at rest is the same after a capture, to the last mapping" {
	start storm "$TARGETS/own-allocator" --threads 16
	tell storm "run 500" ran
	# All but its allocator's own memory, which grows as it is called by the dynamic linker.
	"$root/test/torture/residue" "$pid" --live >residue.before
	text_of "$pid" own-allocator >text.before
	attach "$pid"
	stop "$pid"
	"$root/test/torture/residue" "$pid" --live | diff residue.before -
	unchanged_text "$pid" own-allocator
	finish storm
}

@test "jemalloc in a C program: sampled" {
	start storm "$TARGETS/own-allocator" --threads 2
	attach "$pid" --sample 16KiB
	tell storm zero zeroed
	tell storm "run 50000" ran
	tell storm count '{'
	stop "$pid"
	report
	# An estimate: within a fifth.
	jq -n --slurpfile report report.json --argjson counts "$answer" \
		'($report[0].totals.allocated_bytes / $counts.allocated_bytes) as $ratio | $ratio > 0.8 and $ratio < 1.2' |
		grep -qx true || fail "$(jq -c .totals report.json) for $answer"
	finish storm
}

@test "jemalloc in a C program: its children" {
	local child
	start forker "$TARGETS/own-forker"
	text_of "$pid" own-forker >text.before
	attach "$pid"
	tell forker "fork 50" forked
	tell forker "vfork 50" forked
	tell forker "spawn 50" forked
	tell forker "bare 50" forked
	tell forker keep kept
	child=${answer#kept }
	stop "$pid"
	good_capture
	unchanged_text "$pid" own-forker
	nothing_of_ours "$pid"
	nothing_of_ours "$child"
	unchanged_text "$child" own-forker
	tell forker reap reaped
	tell forker "fork 5" forked
	finish forker
}

@test "jemalloc in a C program: the collector is killed; the next one repairs" {
	start storm "$TARGETS/own-allocator" --threads 4 --cross
	text_of "$pid" own-allocator >text.before
	tell storm go going
	attach "$pid"
	kill -KILL "$limpet_job"
	wait "$limpet_job" || true
	limpet_jobs=()
	tell storm hold held
	tell storm "run 1000" ran
	timeout 60 "$LIMPET" stop -q "$pid" || (($? == 4))
	nothing_of_ours "$pid"
	unchanged_text "$pid" own-allocator
	counted_phase storm 5000
	finish storm
}

@test "a Rust program with jemalloc under its crate's names: run, every call of it" {
	printf '%s\n' go "leak 500" hold quit |
		timeout 60 "$LIMPET" run -q --on-overload wait -o rjem.limpet -- "$TARGETS/rjem" >rjem.say 2>rjem.err ||
		fail "$(<rjem.err)"
	trace=rjem.limpet
	report
	expect '.capture.complete and .capture.dropped_events == 0'
	local key
	# What libc allocates for the program, and its threads' parts of the library, come from libc.
	jq '[.sites[] | select(.stack[0].module // "" | test("/libc[.]|/ld-linux") | not) |
		select(.stack[0].function | test("std::alloc::System") | not)] |
		{allocations: (map(.allocations) | add), allocated_bytes: (map(.allocated_bytes) | add)}' report.json >sums.json
	for key in allocations allocated_bytes; do
		same "$key" "$(jq ".$key" sums.json)" "$(tail -n 1 rjem.say | jq ".$key")" || return 1
	done
	same "kept blocks" "$(site_sum rjem::keep_forever live_allocations)" 500
	same "kept bytes" "$(site_sum rjem::keep_forever live_bytes)" $((500 * 5000))
}

@test "a Rust program with jemalloc under its crate's names: attach, while it works" {
	start rjem "$TARGETS/rjem"
	text_of "$pid" rjem >text.before
	tell rjem go going
	attach "$pid"
	tell rjem "leak 1000" leaked
	tell rjem hold held
	stop "$pid"
	good_capture
	same "kept blocks" "$(site_sum rjem::keep_forever live_allocations)" 1000
	same "kept bytes" "$(site_sum rjem::keep_forever live_bytes)" $((1000 * 5000))
	nothing_of_ours "$pid"
	unchanged_text "$pid" rjem
	tell rjem quit '{'
	result rjem 0
}

@test "a library with jemalloc inside: hidden beside libc's, or bound to itself" {
	local kind key
	for kind in hidden symbolic; do
		start "$kind" "$TARGETS/bundled-$kind"
		text_of "$pid" "libbundle-$kind.so" >text.before
		attach "$pid"
		tell "$kind" "run 5000" ran
		tell "$kind" count '{'
		stop "$pid"
		good_capture
		for key in allocations allocated_bytes frees; do
			same "$kind: $key" "$(jq ".totals.$key" report.json)" "$(jq ".$key" <<<"$answer")" || return 1
		done
		same "$kind: kept" "$(site_sum bundle_resize live_allocations)" "$(jq .kept <<<"$answer")"
		same "$kind: kept by itself" "$(site_sum own_new live_allocations)" "$(jq .kept <<<"$answer")"
		unchanged_text "$pid" "libbundle-$kind.so"
		finish "$kind"
	done
}
