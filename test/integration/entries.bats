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

@test "tcmalloc in a C program: exact counts; signal handlers; capture upon capture" {
	start storm "$TARGETS/own-tcmalloc" --threads 4 --cross --signals
	text_of "$pid" own-tcmalloc >text.before
	counted_phase storm 20000
	unchanged_text "$pid" own-tcmalloc
	tell storm go going
	rounds "$pid" 3
	tell storm hold held
	unchanged_text "$pid" own-tcmalloc
	nothing_of_ours "$pid"
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '.verdict == "ok" and ([.findings[] | select(.id == "allocator") | .text] |
		any(test("tcmalloc is linked into the executable: [0-9]+ functions are hooked")))' <doctor.json ||
		fail "$(<doctor.json)"
	finish storm
}

@test "operator new and delete that a C++ program replaces: each block once, attach and run" {
	local key
	start newer "$TARGETS/newer"
	text_of "$pid" newer >text.before
	attach "$pid"
	tell newer "run 500" ran
	tell newer "leak 70" leaked
	tell newer count '{'
	stop "$pid"
	good_capture
	for key in allocations frees allocated_bytes; do
		same "$key" "$(jq ".totals.$key" report.json)" "$(jq ".$key" <<<"$answer")" || return 1
	done
	same "kept bytes" "$(site_sum "keep_forever()" live_bytes)" $((70 * 5000))
	unchanged_text "$pid" newer
	nothing_of_ours "$pid"
	finish newer
	printf '%s\n' "run 500" "leak 30" count quit |
		timeout 60 "$LIMPET" run -q --on-overload wait -o newer.limpet -- "$TARGETS/newer" >newer.say 2>newer.err ||
		fail "$(<newer.err)"
	trace=newer.limpet
	report
	expect '.capture.complete'
	# Beside them libstdc++ has its own reserve, by malloc.
	jq '[.sites[] | select(any(.stack[]; .function == "main"))] |
		{allocations: (map(.allocations) | add), allocated_bytes: (map(.allocated_bytes) | add)}' report.json >sums.json
	for key in allocations allocated_bytes; do
		same "run: $key" "$(jq ".$key" sums.json)" "$(grep allocations newer.say | jq ".$key")" || return 1
	done
	same "run: kept bytes" "$(site_sum "keep_forever()" live_bytes)" $((30 * 5000))
}

# rust_run NAME: every call of its allocator, under `limpet run`.
rust_run() {
	printf '%s\n' go "leak 500" hold quit |
		timeout 60 "$LIMPET" run -q --on-overload wait -o "$1.limpet" -- "$TARGETS/$1" >"$1.say" 2>"$1.err" ||
		fail "$(<"$1.err")" || return 1
	trace=$1.limpet
	report
	expect '.capture.complete and .capture.dropped_events == 0'
	local key
	# What libc allocates for the program, and its threads' parts of the library, come from libc.
	jq '[.sites[] | select(.stack[0].module // "" | test("/libc[.]|/ld-linux") | not) |
		select(.stack[0].function | test("std::alloc::System") | not)] |
		{allocations: (map(.allocations) | add), allocated_bytes: (map(.allocated_bytes) | add)}' report.json >sums.json
	for key in allocations allocated_bytes; do
		same "$key" "$(jq ".$key" sums.json)" "$(tail -n 1 "$1.say" | jq ".$key")" || return 1
	done
	same "kept blocks" "$(site_sum "$1::keep_forever" live_allocations)" 500 || return 1
	same "kept bytes" "$(site_sum "$1::keep_forever" live_bytes)" $((500 * 5000))
}

# rust_attach NAME FILE: while it works; FILE has the allocator's code.
rust_attach() {
	start "$1" "$TARGETS/$1" || return 1
	text_of "$pid" "$2" >text.before
	tell "$1" go going || return 1
	attach "$pid" || return 1
	tell "$1" "leak 1000" leaked || return 1
	tell "$1" hold held || return 1
	stop "$pid" || return 1
	good_capture || return 1
	same "kept blocks" "$(site_sum "$1::keep_forever" live_allocations)" 1000 || return 1
	same "kept bytes" "$(site_sum "$1::keep_forever" live_bytes)" $((1000 * 5000)) || return 1
	nothing_of_ours "$pid" || return 1
	unchanged_text "$pid" "$2" || return 1
	tell "$1" quit '{' || return 1
	result "$1" 0
}

@test "a Rust program with jemalloc under its crate's names: run, every call of it" {
	rust_run rjem
}

@test "a Rust program with jemalloc under its crate's names: attach, while it works" {
	rust_attach rjem rjem
}

@test "a Rust program with mimalloc under its crate's names: run, every call of it" {
	rust_run rmi
}

@test "a Rust program with mimalloc under its crate's names: attach, while it works" {
	rust_attach rmi libmimalloc.so.2.0
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

# owners_equal: what the report says of each of two allocators, and the program's own counts.
owners_equal() {
	local owner key
	for owner in arena glibc; do
		for key in allocations frees allocated_bytes; do
			same "$owner: $key" \
				"$(jq --arg o "$owner" ".allocators[] | select(.name == \$o) | .$key" report.json)" \
				"$(jq --arg o "$owner" ".[\$o].$key" <<<"$1")" || return 1
		done
	done
	# The third of them that were resized were made elsewhere.
	same "kept in the arena" "$(site_sum keep_in_arena live_allocations)" \
		"$(jq '.kept - ((.kept + 2) / 3 | floor)' <<<"$1")"
}

@test "functions that the user names: each allocator apart, no block twice" {
	printf '%s\n' '# the program is not asked' 'allocator arena' 'arena_take malloc(_, size)' \
		'arena_give free(_, p)' 'arena_grow realloc(_, p, size)' >arena.list
	start arena "$TARGETS/arena"
	text_of "$pid" arena >text.before
	"$LIMPET" doctor --alloc-functions arena.list "$pid" --json >doctor.json
	json_says '[.findings[] | select(.id == "alloc-functions") | .text] == ["all 3 functions that were named are hooked where they begin"]' \
		<doctor.json || fail "$(<doctor.json)"
	attach "$pid" --alloc-functions arena.list
	tell arena "run 4000" ran
	tell arena count '{'
	stop "$pid"
	good_capture
	owners_equal "$answer"
	expect '.totals.allocations == ([.allocators[].allocations] | add) and
		([.sites[] | select(any(.stack[]; .function == "keep_by_malloc")) | .allocator] | unique) == ["glibc"]'
	"$LIMPET" report "$trace" >text.report
	grep -Eq '^of these  (arena|glibc): .* live in .* blocks, .* allocations, .* in all$' text.report &&
		grep -Eq '^          (arena|glibc): .* live in .* blocks, .* allocations, .* in all$' text.report ||
		fail "$(<text.report)"
	unchanged_text "$pid" arena
	nothing_of_ours "$pid"
	# Without the list it is malloc's blocks that are seen.
	attach "$pid"
	tell arena "run 4000" ran
	stop "$pid"
	good_capture
	expect '.allocators == null and .totals.allocations < 4100'
	finish arena

	printf '%s\n' "run 3000" count quit |
		timeout 60 "$LIMPET" run -q --alloc-functions arena.list --on-overload wait -o arena.limpet -- "$TARGETS/arena" \
			>arena.say 2>arena.err || fail "$(<arena.err)"
	trace=arena.limpet
	report
	expect '.capture.complete'
	owners_equal "$(grep arena arena.say)"
}

@test "functions that the user names: what is not there, and lists that are wrong" {
	printf '%s\n' 'arena_take malloc(_, size)' 'arena_bury free(_, p)' >missing.list
	start arena "$TARGETS/arena"
	look "$pid"
	refused 3 "functions that were named are not there: arena_bury" \
		"$LIMPET" attach --alloc-functions missing.list -o never.limpet "$pid"
	refused 125 "functions that were named are not there: arena_bury" \
		"$LIMPET" run --alloc-functions missing.list -o never.limpet -- "$TARGETS/arena"
	printf 'arena_take\n' >wrong.list
	refused 2 "wrong.list:1: 'arena_take' has no signature" \
		"$LIMPET" attach --alloc-functions wrong.list -o never.limpet "$pid"
	refused 2 "cannot read 'nowhere.list'" "$LIMPET" doctor --alloc-functions nowhere.list "$pid"
	[[ ! -e never.limpet ]]
	unchanged "$pid"
	finish arena
}

@test "a pool that reports itself: apart from malloc, and what it has from malloc is not counted" {
	start pool "$TARGETS/pool"
	text_of "$pid" pool >text.before
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '[.findings[] | select(.id == "allocator") | .text] | any(test("a pool that reports itself"))' \
		<doctor.json || fail "$(<doctor.json)"
	attach "$pid"
	tell pool "run 4000" ran
	tell pool count '{'
	stop "$pid"
	good_capture
	owners_equal "$answer"
	(($(jq .chunks <<<"$answer") >= 3))
	unchanged_text "$pid" pool
	nothing_of_ours "$pid"
	finish pool
	printf '%s\n' "run 3000" count quit |
		timeout 60 "$LIMPET" run -q --on-overload wait -o pool.limpet -- "$TARGETS/pool" >pool.say 2>pool.err ||
		fail "$(<pool.err)"
	trace=pool.limpet
	report
	expect '.capture.complete'
	owners_equal "$(grep arena pool.say)"
}

# Whether it has an allocator of its own cannot be known then: this one has not, and is captured.
@test "a Nim program without names: what may stay unseen is told, before and in the report" {
	strip -o nim-stripped "$TARGETS/churn-nim"
	start nim "$TARGETS/churn-nim"
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '[.findings[] | select(.id == "allocator")] == []' <doctor.json || fail "$(<doctor.json)"
	finish nim
	start stripped "$work/nim-stripped"
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '.verdict == "ok" and ([.findings[] | select(.id == "allocator" and .severity == "warning") | .text] |
		any(test("Nim program without names: .* stays unseen")))' <doctor.json || fail "$(<doctor.json)"
	tell stripped go going
	attach "$pid"
	tell stripped hold held
	stop "$pid"
	grep -q 'warning: it is a Nim program without names' attach.1.err || fail "$(<attach.1.err)"
	report
	expect '.capture.unseen_rss_share != null'
	finish stripped
}
