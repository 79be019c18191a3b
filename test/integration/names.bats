#!/usr/bin/env bats
# Functions of an allocator that are called by other ways and other names than most programs use: each
# call is there, or the trace says that some may not be.

load helpers
setup() { begin; }
teardown() { end; }

# ended_well PID: it was left, and nothing of ours is in it.
ended_well() {
	stop "$1" || return 1
	good_capture || return 1
	nothing_of_ours "$1"
}

# Words that no thread can see half written are exchanged only while all threads are stopped.
@test "pointers to malloc in packed structures and in code: their calls are seen, or it is said that they are not" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/packed"
		attach "$pid"
		tell "by-$load" "packed 100" did
		tell "by-$load" "page 10" did
		tell "by-$load" "code 10" did
		tell "by-$load" "kept 100" did
		if [[ $load == map ]]; then
			ended_well "$pid"
			same "blocks" "$(jq -r '.totals | "\(.allocations) \(.live_allocations)"' report.json)" "220 0"
		else
			stop "$pid" 4
			report
			expect '(.capture.incomplete_reasons | index("slots")) and (.capture.exact | not)'
			[[ $(<"$work/attach.$captures.err") == *"6 places that call an allocator could not be hooked"* ]]
		fi
		nothing_of_ours "$pid"
		tell "by-$load" same did
		tell "by-$load" "code 10" did
		finish "by-$load"
	done
}

# limpet lists what has code; the agent finds the rest, but does not search it for values that were kept.
@test "pointers to malloc in a library of data alone: it is said that their calls are not seen" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/packed"
		tell "by-$load" "table 1" did
		attach "$pid"
		tell "by-$load" "table 100" did
		stop "$pid" 4
		report
		expect '.capture.incomplete_reasons | index("slots") != null'
		# Two are the table's; the others those of the test above, or the library itself.
		[[ $(<"$work/attach.$captures.err") == *[38]" places that call an allocator could not be hooked"* ]]
		tell "by-$load" "table 1" did
		finish "by-$load"
	done
}

# as_counted NAME: the totals are what the program says of itself.
as_counted() {
	local allocations frees bytes
	read -r _ allocations frees bytes <<<"$answer"
	report || return 1
	same "allocations, frees, bytes of $1" "$(jq -r '.totals | "\(.allocations) \(.frees) \(.allocated_bytes)"' report.json)" \
		"$allocations $frees $bytes"
}

# The last one has a function of its own that is called as one of jemalloc's.
@test "an allocator by each of its names: every call is there" {
	local kind
	for kind in names names-jemalloc names-mimalloc names-tcmalloc names-alias; do
		start "$kind" "$TARGETS/$kind"
		attach "$pid"
		tell "$kind" run counted
		ended_well "$pid" || fail "$kind" || return 1
		as_counted "$kind"
		tell "$kind" run counted
		finish "$kind"
	done
}

@test "an allocator with more other names than are followed: that some calls may be missing is told" {
	{
		echo "#include \"test/targets/names_alias.c\""
		printf 'ALIAS(other_%d, malloc);\n' {1..300}
	} >many.c
	gcc -O1 -D_GNU_SOURCE -I"$root" -fno-builtin -fPIC -shared -Wl,-soname,names-alias.so -o names-alias.so many.c
	cp "$TARGETS/names-alias" many
	start many ./many
	attach "$pid"
	tell many run counted
	stop "$pid" 4
	report
	expect '.capture.incomplete_reasons == ["slots"]'
	[[ $(<"$work/attach.$captures.err") == *"1 place that calls an allocator could not be hooked"* ]]
	nothing_of_ours "$pid"
	tell many run counted
	finish many
}

# said NAME LINE STATUS REASON: with this call in a capture it ends so; "" is no reason.
said() {
	local name="$1-${2// /-}"
	start "$name" "$TARGETS/$1" || return 1
	attach "$pid" || return 1
	tell "$name" "$2" counted || return 1
	[[ -z $4 ]] || wait_until 20 so_far '.capture.incomplete_reasons | index($reason) != null' --arg reason "$4" || return 1
	stop "$pid" "$3" || return 1
	# mimalloc's heaps are blocks of its own.
	if [[ $1 == *mimalloc ]]; then report; else as_counted "$1, $2"; fi || return 1
	expect '.capture | .incomplete_reasons == [$reason | select(. != "")] and .exact == ($reason == "")' --arg reason "$4" ||
		return 1
	nothing_of_ours "$pid" || return 1
	finish "$name"
}

@test "blocks that are freed at once, with their heap or arena, are told of, and only then" {
	said names-mimalloc purge 0 ""
	said names-mimalloc destroy 4 freed-heaps
	said names-jemalloc purge 0 ""
	said names-jemalloc destroy 4 freed-heaps
	said names-jemalloc "destroy by number" 4 freed-heaps
	within 20 "$LIMPET" report "$trace" >report.txt
	grep -q "freed whole heaps or arenas at once" report.txt
}

@test "functions of an allocator that limpet does not follow are told of if they are called" {
	local name
	for name in names-mimalloc names-jemalloc; do
		start "$name" "$TARGETS/$name"
		attach "$pid"
		tell "$name" other counted
		stop "$pid" 4
		report
		expect '.capture | .incomplete_reasons == ["functions"] and (.incomplete_because | test("does not follow"))'
		nothing_of_ours "$pid"
		finish "$name"
	done
}

# What its constructors would have called is not seen: the linker binds such names to the function itself.
@test "an allocator by other names, in a module that is loaded during the capture" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/names-alias"
		attach "$pid"
		tell "by-$load" "open $TARGETS/names-late.so" counted
		stop "$pid" 4
		report
		expect '.capture | .incomplete_reasons == ["late-modules"] and .agent_unloaded'
		nothing_of_ours "$pid"
		same "blocks" "$(site_sum names_late allocations)" 100
		same "what of them is live" "$(site_sum names_late live_allocations)" 0
		tell "by-$load" run counted
		finish "by-$load"
	done
}

# Before, its realloc led to libc's, which does not know the block.
@test "a plugin that is bound to an allocator of its own, each function at its first call: it stays with that" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/deep"
		attach "$pid"
		tell "by-$load" grow did
		tell "by-$load" drop did
		ended_well "$pid"
		same "of the plugin" "$(site_sum deep_grow allocations) $(site_sum deep_make allocations) $(site_sum deep_make live_allocations)" "1 1 0"
		same "of the program" "$(site_sum own allocations) $(site_sum own live_allocations)" "4 0"
		tell "by-$load" grow did
		tell "by-$load" drop did
		finish "by-$load"
	done
}

# Code begins in the page of the file that has the ELF header: that page is mapped twice, at different distances.
@test "small programs and plugins linked by LLD: each function by its name, in attach and stacks" {
	local plugin module names='def name: "fn\(. + 100 | tostring[1:])"; def chain: [.stack[].function | values | select(startswith("fn"))];'
	for plugin in "" compact-plugin.so; do
		module=${plugin:-compact}
		readelf -lW "$TARGETS/$module" | grep -qE 'LOAD +0x000[0-9a-f]{3} 0x0*[1-9a-f][0-9a-f]{3} .* R E '
		start "$module" "$TARGETS/compact" ${plugin:+"$TARGETS/$plugin"}
		attach "$pid"
		tell "$module" call called
		stop "$pid"
		good_capture
		expect "$names"'.capture.truncated_stacks == 0 and
			([.sites[] | [.allocated_bytes - 1000, chain] | select(.[1] != [])] | sort) ==
			[range(20) | [., [range(.; -1; -1) | name]]]'
		tell "$module" stand standing
		within 60 "$LIMPET" stacks "$pid" --json >stacks.json
		says_in stacks.json "$names"'.threads[0] | chain == [range(19; -1; -1) | name]'
		tell "$module" "" stood
		finish "$module"
	done
}
