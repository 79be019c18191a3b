#!/usr/bin/env bats
# Allocators inside of the program, or of a library that calls its own: hooked where their functions begin.
# time-limit: 400

load helpers
setup() { begin; }
teardown() { end; }

# track: allocator | jemalloc, linked in | attach | entries
# bats test_tags=check
@test "jemalloc in a C program: exact counts, and its code is as it was" {
	start storm "$TARGETS/own-allocator" --threads 4 --cross
	text_of "$pid" own-allocator >text.before
	counted_phase storm 20000
	unchanged_text "$pid" own-allocator
	nothing_of_ours "$pid"
	finish storm
}

# track: allocator | jemalloc, linked in | run
# track: allocator | tcmalloc, linked in | run
# track: allocator | tcmalloc, linked in, with link-time optimization | run
# track: allocator | jemalloc, linked in, with link-time optimization; stripped | run
# bats test_tags=release
@test "jemalloc and tcmalloc in a C program: run, every call from the entry point on" {
	local name
	for name in own-allocator own-lto own-tcmalloc own-tcmalloc-lto; do
		counted_run "$name" "$TARGETS/$name" --threads 2 --cross
	done
	strip -o own-stripped "$TARGETS/own-allocator"
	stripped=true counted_run stripped "$work/own-stripped" --threads 2 --cross
}

# bats test_tags=release
@test "jemalloc in a C program: signal handlers; capture upon capture" {
	# As fast as they can: test/torture/rounds.bats.
	start storm "$TARGETS/own-allocator" --threads 8 --cross --signals --rate 60000
	text_of "$pid" own-allocator >text.before
	tell storm go going
	rounds "$pid" 2
	tell storm hold held
	unchanged_text "$pid" own-allocator
	counted_phase storm 5000
	unchanged_text "$pid" own-allocator
	finish storm
}

# The dynamic linker allocates for each thread that is made, by the same functions: seen here, and not by
# the program.
# bats test_tags=release
@test "jemalloc in a C program: threads that come and go" {
	start storm "$TARGETS/own-allocator" --threads 8 --cross --churn 700
	attach "$pid"
	tell storm zero zeroed
	tell storm "run 10000" ran
	tell storm count '{'
	stop "$pid"
	good_capture
	local function
	json_says '.by_function | length > 0' <<<"$answer"
	for function in $(jq -r '.by_function | keys[]' <<<"$answer"); do
		same "allocations in $function" "$(site_sum "$function" allocations)" \
			"$(jq ".by_function.$function" <<<"$answer")" || return 1
	done
	(($(jq .totals.allocations report.json) >= $(jq .allocations <<<"$answer")))
	finish storm
}

# track: allocator | jemalloc, linked in, with link-time optimization; stripped | attach | entries; once stripped it is found by the malloc that it exports, and the program's functions have no names
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

# bats test_tags=release
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
	cleaned_up "$pid"
	unchanged_text "$pid" own-allocator
	counted_phase storm 5000
	finish storm
}

# A jump that is left in `free` hides what its instructions are.
@test "jemalloc in a C program: the collector is killed; the next one finds its functions, too" {
	start storm "$TARGETS/own-allocator" --threads 2
	text_of "$pid" own-allocator >text.before
	attach "$pid"
	kill -KILL "$limpet_job"
	wait "$limpet_job" || true
	limpet_jobs=()
	! unchanged_text "$pid" own-allocator 2>/dev/null || fail "no jump is left"
	within 30 "$LIMPET" doctor "$pid" >doctor.say || fail "$(<doctor.say)"
	counted_phase storm 1000
	unchanged_text "$pid" own-allocator
	finish storm
}

# track: allocator | tcmalloc, linked in | attach | entries
# bats test_tags=release
@test "tcmalloc in a C program: exact counts; signal handlers; capture upon capture" {
	start storm "$TARGETS/own-tcmalloc" --threads 4 --cross --signals
	text_of "$pid" own-tcmalloc >text.before
	counted_phase storm 20000
	unchanged_text "$pid" own-tcmalloc
	tell storm go going
	rounds "$pid" 2
	tell storm hold held
	unchanged_text "$pid" own-tcmalloc
	nothing_of_ours "$pid"
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '.verdict == "ok" and ([.findings[] | select(.id == "allocator") | .text] |
		any(test("tcmalloc is linked into the executable: [0-9]+ functions are hooked")))' <doctor.json ||
		fail "$(<doctor.json)"
	finish storm
}

# track: allocator | tcmalloc, linked in, with link-time optimization | attach | entries
# bats test_tags=release
@test "tcmalloc in a C program: link-time optimization" {
	start lto "$TARGETS/own-tcmalloc-lto" --threads 4 --cross
	text_of "$pid" own-tcmalloc-lto >text.before
	counted_phase lto 10000
	unchanged_text "$pid" own-tcmalloc-lto
	finish lto
}

# newer_counts TARGET: what its operators did in a capture, as they have counted it.
newer_counts() {
	local key
	attach "$pid" || return 1
	tell newer "run 500" ran || return 1
	tell newer "leak 70" leaked || return 1
	tell newer count '{' || return 1
	stop "$pid" || return 1
	good_capture || return 1
	for key in allocations frees allocated_bytes; do
		same "$key" "$(jq ".totals.$key" report.json)" "$(jq ".$key" <<<"$answer")" || return 1
	done
	same "kept bytes" "$(site_sum "keep_forever()" live_bytes)" $((70 * 5000)) || return 1
	unchanged_text "$pid" "$1" || return 1
	nothing_of_ours "$pid" || return 1
	finish newer
}

# track: language | C++ with operators new and delete of its own | attach run | entries; each block once
@test "operator new and delete that a C++ program replaces: each block once, attach and run" {
	local key
	start newer "$TARGETS/newer"
	text_of "$pid" newer >text.before
	newer_counts newer
	printf '%s\n' "run 500" "leak 30" count quit |
		within 60 "$LIMPET" run -q "${patiently[@]}" -o newer.limpet -- "$TARGETS/newer" >newer.say 2>newer.err ||
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

# track: language | C++ with operators that are short jumps to others | attach | entries; each block once
@test "operators that are short jumps to another one need no hook: nothing is missed, and nothing said to be" {
	start newer "$TARGETS/newer-short"
	text_of "$pid" newer-short >text.before
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says 'all(.findings[]; .text | contains("cannot be hooked") | not)' <doctor.json || fail "$(<doctor.json)"
	newer_counts newer-short
}

@test "an operator that jumps into the beginning of another: that one is not hooked, and the program goes on" {
	start newer "$TARGETS/newer-middle"
	text_of "$pid" newer-middle >text.before
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says 'any(.findings[]; .text | contains("_Znwm: another function jumps into its beginning"))' <doctor.json || fail "$(<doctor.json)"
	attach "$pid"
	tell newer "run 500" ran
	tell newer "leak 70" leaked
	stop "$pid" 4
	unchanged_text "$pid" newer-middle
	nothing_of_ours "$pid"
	tell newer "run 500" ran
	finish newer
}

@test "functions of a program that only have an allocator's names are left alone" {
	start namesake "$TARGETS/namesake"
	text_of "$pid" namesake >text.before
	attach "$pid"
	tell namesake "run 3000" ran
	stop "$pid"
	good_capture
	expect '.totals.allocations == 9000 and .totals.frees == 9000 and (.target.allocators | startswith("glibc ") and (contains(",") | not))'
	same "by the one" "$(site_sum mi_new allocated_bytes)" $((3000 * 88))
	same "by another" "$(site_sum tc_new allocated_bytes)" $((3000 * 40))
	same "by the third" "$(site_sum tc_memalign allocated_bytes)" $((3000 * 40))
	unchanged_text "$pid" namesake
	finish namesake
}

# newer_throws TARGET: exceptions leave through its operators; blocks that are kept are where they were kept. An
# exception is made within the operator, where calls of malloc are the operator's own affair, and freed outside.
newer_throws() {
	local key=$1${load-}
	start "$key" "$TARGETS/$1"
	attach "$pid"
	tell "$key" "throw 50" thrown
	tell "$key" "run 100" ran
	tell "$key" "leak 70" leaked
	stop "$pid"
	good_capture
	same "kept blocks" "$(site_sum "keep_forever()" live_allocations)" 70
	expect '.totals.foreign_frees == 50 and .capture.unseen_calls == 0'
	nothing_of_ours "$pid"
	tell "$key" "throw 50" thrown
	finish "$key"
	printf '%s\n' "throw 50" "leak 30" quit |
		LIMPET_LOAD=${load-} within 60 "$LIMPET" run -q "${patiently[@]}" -o "$key.limpet" -- "$TARGETS/$1" >newer.say 2>newer.err ||
		fail "$(<newer.err)"
	[[ $(<newer.say) == *thrown*leaked* ]]
	trace=$key.limpet
	report
	expect '.capture.complete'
	same "run: kept blocks" "$(site_sum "keep_forever()" live_allocations)" 30
}

# track: language | C++ with operators new and delete of its own, static | attach run | entries
# bats test_tags=release
@test "exceptions that leave a program's own operator new, by dlopen, mapped and static" {
	load=dlopen newer_throws newer
	newer_throws newer
	load=map newer_throws newer
	newer_throws newer-static
}

@test "registers that an allocator's function leaves alone are left alone: attach, run, sampled, switched on and off" {
	local options
	printf '%s\n' "allocator keeps" "keeps_take malloc(size)" "keeps_give free(p)" >keeps.list
	start keeps "$TARGETS/keeps"
	for options in "" "--sample 4KiB"; do
		# shellcheck disable=SC2086 # several words
		attach "$pid" --alloc-functions keeps.list $options
		tell keeps "run 20000" ran
		stop "$pid"
		good_capture
		[[ -n $options ]] || expect '.totals.allocations == 20000 and .totals.frees == 20000 and .totals.allocated_bytes == 1280000'
	done
	tell keeps go going
	for _ in 1 2 3 4 5 6; do
		attach "$pid" --alloc-functions keeps.list --on-overload drop --no-seal -q
		"$LIMPET" stop "$pid" >/dev/null || [[ $? == 4 ]]
		wait "$limpet_job" || [[ $? == 4 ]]
	done
	tell keeps hold held
	nothing_of_ours "$pid"
	finish keeps
	printf '%s\n' "run 5000" quit |
		within 60 "$LIMPET" run -q --alloc-functions keeps.list "${patiently[@]}" -o keeps.limpet -- "$TARGETS/keeps" \
			>keeps.say 2>keeps.err || fail "$(<keeps.err)"
	trace=keeps.limpet
	report
	same "run: calls" "$(site_sum keeps_run allocations)" 5000
}

@test "vector registers that an allocator's functions leave alone are left alone: malloc, calloc, realloc, free" {
	local options
	start vectors "$TARGETS/vectors"
	for options in "" "--sample 4KiB"; do
		# shellcheck disable=SC2086 # several words
		attach "$pid" $options
		tell vectors "run 4000" ran
		stop "$pid"
		good_capture
		[[ -n $options ]] || expect '.totals.allocations == 8000'
	done
	tell vectors asked asked
	# Of each block that is given back or moved, in the first capture.
	same "sizes asked" "$((${answer#asked } >= 8000))" 1
	tell vectors go going
	for _ in 1 2 3; do
		attach "$pid" --on-overload drop --no-seal -q
		"$LIMPET" stop "$pid" >/dev/null || [[ $? == 4 ]]
		wait "$limpet_job" || [[ $? == 4 ]]
	done
	tell vectors hold held
	nothing_of_ours "$pid"
	finish vectors
}

@test "functions with arguments on the stack, doubles, structures and any number of them: each as it was given" {
	local name
	{
		echo "allocator many"
		for name in 1 2 3 4 5 6 7 8 9 10 11 12 mixed struct variadic; do
			echo "many_take_$name malloc(size)"
		done
		# Its answer is a structure: where it is to be put comes first.
		echo "many_give free(_, p)"
	} >many.list
	start many "$TARGETS/manyargs"
	tell many "run 10" ran
	attach "$pid" --alloc-functions many.list
	tell many "run 400" ran
	tell many "threads 200" joined
	stop "$pid"
	good_capture
	# Fifteen functions, 400 rounds and four times 200.
	# What they call themselves is theirs: recorded too, it would be released twice.
	expect '.totals.allocations >= 18000 and .capture.unseen_calls == 0 and .totals.inferred_frees == 0'
	same "of the functions" "$(jq '.allocators[] | select(.name == "many") | .allocations' report.json)" 18000
	same "released" "$(jq '.allocators[] | select(.name == "many") | .frees' report.json)" 18000
	# More than can be copied: the calls are left alone, and that is said.
	attach "$pid" --alloc-functions many.list -q
	tell many "large 20" 'done'
	"$LIMPET" stop "$pid" >/dev/null || [[ $? == 4 ]]
	wait "$limpet_job" || [[ $? == 4 ]]
	report
	expect '(.capture.complete | not) and .capture.unseen_calls == 20'
	nothing_of_ours "$pid"
	finish many
}

# listed LIST COMMAND ANSWER: a capture with these functions; its status is in $status.
listed() {
	attach "$pid" --alloc-functions "$1" -q
	tell many "$2" "$3"
	"$LIMPET" stop "$pid" >stop.said || [[ $? == 4 ]]
	status=0
	wait "$limpet_job" || status=$?
	report
	nothing_of_ours "$pid"
}

# bats test_tags=release
@test "signatures that are wrong: figures that no process can have are told of, and the trace is not complete" {
	start many "$TARGETS/manyargs"
	# Something else for a size; a function that answers a number; something else for a block.
	printf '%s\n' "allocator many" "many_take_3 malloc(_, size)" "many_give free(_, p)" >size.list
	printf '%s\n' "allocator many" "many_number malloc(size)" "many_give free(_, p)" >block.list
	printf '%s\n' "allocator many" "many_take_3 malloc(size)" "many_give free(_, _, p)" >free.list
	printf '%s\n' "allocator many" "many_take_3 malloc(size)" "many_give free(_, p)" >good.list
	listed size.list "run 100" ran
	same "a wrong size" "$status" 4
	expect '(.capture.complete | not) and (.capture.incomplete_because | test("allocator many is wrong: 100 of 100 blocks are larger than the process"))'
	grep -q "allocator many is wrong" "attach.$captures.err"
	listed block.list "numbers 100" numbered
	same "a wrong answer" "$status" 4
	expect '.capture.incomplete_because | test("allocator many is wrong: 100 of 100 blocks are outside of its memory")'
	listed free.list "run 100" ran
	same "a wrong block" "$status" 4
	expect '.capture.incomplete_because | test("a signature is wrong: [0-9,]+ of [0-9,]+ released blocks are outside of its memory")'
	printf '%s\n' "allocator many" "many_zero posix_memalign(out, alignment, size)" "many_give free(_, p)" >out.list
	listed out.list "numbers 100" numbered
	same "no place for a block" "$status" 4
	expect '.capture.unseen_calls == 100'
	# Too few to tell by; but no block has such a size, and what was left out is counted. And right ones.
	listed size.list "run 60" ran
	same "few" "$status" 4
	expect '.capture.incomplete_because == null and .capture.incomplete_reasons == ["dropped-events"]'
	listed good.list "run 100" ran
	same "right" "$status" 0
	expect '.capture.complete'
	finish many
}

# bats test_tags=release
@test "reallocarray that an allocator leaves to the C library: attach and run" {
	local library key
	for library in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2; do
		key=$library
		library=/usr/lib/x86_64-linux-gnu/$library
		[[ -e $library ]] || skip "$library is not installed"
		start "$key" env LD_PRELOAD="$library" "$TARGETS/regrow"
		attach "$pid"
		tell "$key" "run 2000" ran
		tell "$key" "keep 40" kept
		stop "$pid"
		good_capture
		same "$library: calls" "$(site_sum regrow_run allocations)" 4000 || return 1
		same "$library: kept" "$(site_sum regrow_keep live_bytes)" 120000 || return 1
		expect '.totals.foreign_frees == 0'
		expect '[.allocators[]?.name] | index("glibc") | not'
		finish "$key" || return 1
		printf '%s\n' "run 1000" "keep 10" quit |
			LD_PRELOAD=$library within 60 "$LIMPET" run -q "${patiently[@]}" -o "$key.limpet" -- "$TARGETS/regrow" \
				>regrow.say 2>regrow.err || fail "$(<regrow.err)"
		trace=$key.limpet
		report
		same "$library: run: kept" "$(site_sum regrow_keep live_bytes)" 30000 || return 1
	done
}

# rust_run NAME: every call of its allocator, under `limpet run`.
rust_run() {
	printf '%s\n' go "leak 500" hold quit |
		within 60 "$LIMPET" run -q "${patiently[@]}" -o "$1.limpet" -- "$TARGETS/$1" >"$1.say" 2>"$1.err" ||
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

# track: allocator | Rust with jemalloc (`_rjem_*`) | run
@test "a Rust program with jemalloc under its crate's names: run, every call of it" {
	rust_run rjem
}

# track: allocator | Rust with jemalloc (`_rjem_*`) | attach | entries
@test "a Rust program with jemalloc under its crate's names: attach, while it works" {
	rust_attach rjem rjem
}

# track: allocator | Rust with mimalloc (`mi_*`) | run
@test "a Rust program with mimalloc under its crate's names: run, every call of it" {
	rust_run rmi
}

# track: allocator | Rust with mimalloc (`mi_*`) | attach | entries, in Debian's shared library: Debian has no static one
# bats test_tags=release
@test "a Rust program with mimalloc under its crate's names: attach, while it works" {
	rust_attach rmi libmimalloc.so.2.0
}

# track: allocator | a library with jemalloc inside, hidden or `-Bsymbolic` | attach | entries; several allocators are totalled apart
# bats test_tags=release
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

# track: allocator | a library with jemalloc inside, hidden or `-Bsymbolic` | run
# bats test_tags=release
@test "a library with jemalloc inside: run, every call from the entry point on" {
	local kind own theirs
	for kind in hidden symbolic; do
		printf '%s\n' "run 3000" count quit |
			within 60 "$LIMPET" run -q "${patiently[@]}" -o "$kind.limpet" -- "$TARGETS/bundled-$kind" \
				>"$kind.say" 2>"$kind.err" || fail "$(<"$kind.err")"
		trace=$kind.limpet
		good_capture
		own=$(site_sum own_new allocated_bytes)
		theirs=$(($(site_sum bundle_new allocated_bytes) + $(site_sum bundle_resize allocated_bytes)))
		same "$kind: bytes" $((own + theirs)) "$(grep '^{' "$kind.say" | jq .allocated_bytes)"
		same "$kind: blocks" "$(site_sum own_new allocations) $(site_sum bundle_new allocations) $(site_sum bundle_resize allocations)" \
			"3000 3000 3000"
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

# track: allocator | pools and allocators that limpet does not know | attach run | entries, by `--alloc-functions`
@test "functions that the user names: each allocator apart, no block twice" {
	printf '%s\n' '# the program is not asked' 'allocator arena' 'arena_take malloc(_, size)' \
		'arena_give free(_, p)' 'arena_grow realloc(_, p, size)' >arena.list
	start arena "$TARGETS/arena"
	text_of "$pid" arena >text.before
	"$LIMPET" doctor --alloc-functions arena.list "$pid" --json >doctor.json
	json_says '[.findings[] | select(.id == "alloc-functions") | .text] == ["all 3 functions that you named are hooked at their entries"]' \
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
		within 60 "$LIMPET" run -q --alloc-functions arena.list "${patiently[@]}" -o arena.limpet -- "$TARGETS/arena" \
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
	refused 3 "functions that you named do not exist: arena_bury" \
		"$LIMPET" attach --alloc-functions missing.list -o never.limpet "$pid"
	refused 125 "functions that you named do not exist: arena_bury" \
		"$LIMPET" run --alloc-functions missing.list -o never.limpet -- "$TARGETS/arena"
	printf 'arena_take\n' >wrong.list
	refused 2 "wrong.list:1: 'arena_take' has no signature" \
		"$LIMPET" attach --alloc-functions wrong.list -o never.limpet "$pid"
	refused 2 "cannot read 'nowhere.list'" "$LIMPET" doctor --alloc-functions nowhere.list "$pid"
	[[ ! -e never.limpet ]]
	unchanged "$pid"
	finish arena
}

# track: allocator | pools that report themselves (`limpet.h`) | attach run | entries
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
		within 60 "$LIMPET" run -q "${patiently[@]}" -o pool.limpet -- "$TARGETS/pool" >pool.say 2>pool.err ||
		fail "$(<pool.err)"
	trace=pool.limpet
	report
	expect '.capture.complete'
	owners_equal "$(grep arena pool.say)"
}

# Whether it has an allocator of its own cannot be known then: this one has not, and is captured.
# track: nim | Nim, stripped | attach run | what goes through libc; limpet says that its own allocator may stay unseen
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
	within 60 "$LIMPET" run "${patiently[@]}" -o stripped.limpet -- "$work/nim-stripped" <<<quit >run.say 2>run.err || fail "$(<run.err)"
	grep -q 'warning: it is a Nim program without names' run.err || fail "$(<run.err)"
	trace=stripped.limpet
	report
	expect '.totals.allocations > 0'
}

@test "a function that only allocates and cannot be hooked: told before, and the trace is not complete" {
	start lame "$TARGETS/lame"
	text_of "$pid" lame >text.before
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '.verdict == "ok" and ([.findings[] | select(.id == "allocator" and .severity == "warning") | .text] |
		any(test("^1 of its functions cannot be hooked \\(je_valloc: .*\\): .* unseen")))' <doctor.json || fail "$(<doctor.json)"
	attach "$pid"
	tell lame "run 2000" ran
	tell lame count '{'
	stop "$pid" 4
	grep -q 'warning: 1 of its functions cannot be hooked (je_valloc: ' attach.1.err || fail "$(<attach.1.err)"
	grep -q 'warning: the trace is not complete: 1 function of its allocator' attach.1.err || fail "$(<attach.1.err)"
	report
	expect '.capture.complete == false and .capture.dropped_events == 0 and .capture.agent_unloaded'
	# What is seen is right; of what is not, only the releases are.
	same allocations "$(jq .totals.allocations report.json)" "$(jq .allocations <<<"$answer")"
	same frees "$(jq .totals.frees report.json)" "$(jq .frees <<<"$answer")"
	same kept "$(site_sum keep live_allocations)" "$(jq .kept <<<"$answer")"
	expect '.totals.foreign_frees == 2000'
	"$LIMPET" report "$trace" >text.report
	grep -q 'the trace is not complete' text.report || fail "$(<text.report)"
	unchanged_text "$pid" lame
	finish lame
	"$LIMPET" run -q "${patiently[@]}" -o lame.limpet -- "$TARGETS/lame" <<<"quit" >lame.say 2>lame.err || fail "$(<lame.err)"
	trace=lame.limpet
	report
	expect '.capture.complete == false'
}

# unfollowed_so_far END [FILTER]: what the report says of a capture of lame without an end record.
unfollowed_so_far() {
	so_far '.capture.end == $how and .capture.complete == false and .capture.exact == false and
		.capture.inexact_reasons == ["functions"] and
		.capture.incomplete_because == "functions of its allocator cannot be followed" and
		(.capture.incomplete_reasons | sort) == ["functions", "unfinished"] and
		.totals.live_bytes_min == null and .totals.live_bytes_max == null and ('"${2:-true}"')' --arg how "$1"
}

@test "a function that cannot be hooked: told while the capture runs, and when limpet was killed" {
	start lame "$TARGETS/lame"
	text_of "$pid" lame >text.before
	attach "$pid"
	unfollowed_so_far running
	tell lame "run 2000" ran
	wait_until 60 unfollowed_so_far running '.totals.allocations == 2000'
	"$LIMPET" report "$trace" >text.report
	grep -q '^losses .*not complete: functions of its allocator cannot be followed' text.report ||
		fail "$(<text.report)"
	! grep -q 'none so far' text.report || fail "$(<text.report)"
	"$LIMPET" report "$trace" --view functions >text.view
	grep -q 'the trace is not complete' text.view || fail "$(<text.view)"
	"$LIMPET" diff "$trace" "$trace" >text.diff
	grep -q 'neither complete nor exact (functions of its' text.diff || fail "$(<text.diff)"
	"$LIMPET" export "$trace" -f csv -o lame.csv 2>export.err
	grep -q 'warning: the trace is not complete' export.err || fail "$(<export.err)"
	kill -KILL "$limpet_job"
	exit_status_of "$limpet_job" 10
	unfollowed_so_far collector-lost '.totals.allocations == 2000'
	"$LIMPET" report "$trace" >text.report
	grep -q 'not complete: functions of its allocator cannot be followed' text.report || fail "$(<text.report)"
	cleaned_up "$pid"
	unchanged_text "$pid" lame
	finish lame
	# Not one of its events is in the file.
	start early "$TARGETS/lame"
	attach "$pid"
	kill -KILL "$limpet_job"
	exit_status_of "$limpet_job" 10
	unfollowed_so_far collector-lost
	cleaned_up "$pid"
	finish early
}

@test "a capture with several reasons not to be complete says each of them, at its end and in the report" {
	local said
	start lame "$TARGETS/lame"
	# What is given to it is a size.
	printf '%s\n' "allocator lame" "keep malloc(size)" "je_arena_take free(p)" >wrong.list
	attach "$pid" --alloc-functions wrong.list
	tell lame "run 2000" ran
	stop "$pid" 4
	finish lame
	report
	expect '.capture.incomplete_reasons == ["functions", "named-functions"]'
	expect '[.capture.losses[].reason] == ["functions", "named-functions"]'
	"$LIMPET" report "$trace" | tr -s "\n " " " >text.report
	while read -r said; do
		grep -qF "warning: the trace is not complete: $said" attach.1.err || fail "$said: $(<attach.1.err)"
		grep -qF "the trace is not complete: $said" text.report || fail "$said: $(<text.report)"
	done < <(jq -r '.capture.losses[].words' report.json)
	grep -q "not complete: 1 function of its allocator" attach.1.err || fail "$(<attach.1.err)"
	grep -q "not complete: a signature is wrong: .* released blocks" attach.1.err || fail "$(<attach.1.err)"
}

# What comes and is gone again before the collector's next look stays unseen without a word.
# bats test_tags=release
@test "a plugin with jemalloc inside that is loaded during the capture is told of; another capture follows it" {
	# Debian's jemalloc has its thread-local state where little room is for those that come late.
	start loader env GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384 "$TARGETS/loader" "$TARGETS/plugin-rjem.so"
	attach "$pid"
	tell loader open opened
	tell loader "allocate 50" allocated
	stop "$pid" 4
	grep -q 'not complete: plugin-rjem.so, which was loaded during the capture, has an allocator of its own' \
		attach.1.err || fail "$(<attach.1.err)"
	report
	expect '.capture.complete == false and .capture.dropped_events == 0 and .capture.agent_unloaded and
		(.capture.incomplete_because | startswith("plugin-rjem.so, which was loaded during the capture,"))'
	"$LIMPET" report "$trace" | tr -s "\n " " " | grep -q "the trace is not complete: plugin-rjem.so, which was" ||
		fail "$("$LIMPET" report "$trace")"
	text_of "$pid" plugin-rjem.so >text.before
	attach "$pid"
	tell loader free freed
	tell loader "allocate 70" allocated
	stop "$pid"
	good_capture
	same "blocks of the plugin" "$(site_sum plugin_allocate live_allocations)" 71
	same "blocks of before" "$(jq .totals.foreign_frees report.json)" 51
	unchanged_text "$pid" plugin-rjem.so
	tell loader free freed
	# One without is as it was.
	finish loader
	start loader2 "$TARGETS/loader" "$TARGETS/plugin.so"
	attach "$pid"
	tell loader2 open opened
	tell loader2 "allocate 50" allocated
	stop "$pid"
	good_capture
	same "blocks of the other" "$(site_sum plugin_allocate live_allocations)" 51
	finish loader2
}

# Its operators are functions that allocate, but by malloc.
@test "libstdc++ that is loaded during the capture is no allocator of its own" {
	start late "$LIMPET" run -q "${patiently[@]}" -o "$work/late.limpet" -- /usr/bin/python3 -c "
import ctypes, os
print('ready', os.getpid(), flush=True)
input()
ctypes.CDLL('libstdc++.so.6')
print('loaded', flush=True)
input()"
	tell late load loaded
	trace=$work/late.limpet
	wait_until 60 so_far 'any(.modules[]; .module | contains("libstdc++"))'
	finish late
	[[ ! -s late.err ]] || fail "$(<late.err)"
	good_capture
}
