#!/usr/bin/env bats
# Modules that allocate before anybody can look at them: in constructors, or loaded by libc itself.
# time-limit: 120

load helpers
setup() { begin; }
teardown() { end; }

# captured NAME: begins, in the way that `load` says.
captured() {
	start "$1" "$TARGETS/comer"
	attach "$pid"
}

# ended_well PID: it was left, and nothing of ours is in it.
ended_well() {
	stop "$1" || return 1
	good_capture || return 1
	nothing_of_ours "$1"
}

# first_calls WAY MODULE: what a constructor did is seen, also in a module that is still there when limpet leaves.
first_calls() {
	local name=by-$load-$1-${2%.so}
	captured "$name" || return 1
	tell "$name" "$1 $TARGETS/$2" opened
	ended_well "$pid" || return 1
	same "blocks of the constructor" "$(site_sum early_begin allocations)" 1000 || return 1
	same "bytes of the constructor" "$(site_sum early_begin allocated_bytes)" 600000 || return 1
	tell "$name" "more 10" more || return 1
	tell "$name" close closed || return 1
	finish "$name"
}

@test "a constructor: each of its calls, and the module is left as it is, bound at once or later" {
	local load
	for load in "" dlopen map; do
		first_calls open early-now.so || fail "$load: slots that are closed" || return 1
		first_calls open early-lazy.so || fail "$load: slots that stay open" || return 1
		first_calls lazy early-lazy.so || fail "$load: slots that are bound later" || return 1
	done
}

@test "calls that are bound at the first one, during the capture: seen, and put back" {
	local load
	for load in "" dlopen map; do
		captured "by-$load"
		tell "by-$load" "lazy $TARGETS/early-lazy.so" opened
		tell "by-$load" "more 300" more
		ended_well "$pid"
		same "blocks" "$(site_sum early_more allocations)" 300
		tell "by-$load" "more 10" more
		tell "by-$load" close closed
		finish "by-$load"
	done
}

@test "a module that comes and goes: its constructor and its destructor" {
	captured comer
	tell comer "open $TARGETS/early-now.so" opened
	tell comer close closed
	tell comer "lazy $TARGETS/early-lazy.so" opened
	tell comer "more 5" more
	tell comer close closed
	ended_well "$pid"
	# Its name may be gone with it.
	expect '([.sites[] | select(.allocated_bytes == 600 * .allocations) | .allocations] | add) == 2000'
	expect '[.sites[] | select(.allocated_bytes == 600 * .allocations) | .live_allocations] | add == 0'
	finish comer
}

@test "objects of a C++ module, and what is thrown while they are made" {
	captured comer
	tell comer "open $TARGETS/early-cxx.so" opened
	ended_well "$pid"
	# Their tables may come after them, so that stacks are cut short: 90 objects with a text each, ten exceptions with
	# one each, which are caught and freed, the list, and what libstdc++ keeps for exceptions. The linker's own are apart.
	expect '[.sites[] | select(.stack[0].module // "" | test("/ld-") | not)] |
		(map(.allocations) | add) == 202 and (map(.frees) | add) == 20'
	expect '[.sizes[] | select(.from_bytes <= 501 and .to_bytes > 501) | .allocations] | add >= 90'
	tell comer "more 10" more
	finish comer
}

# libc's own dlopen goes through no slot of anybody's.
@test "a module that libc loads by itself" {
	mkdir "$work/gconv"
	cp "$TARGETS/early-now.so" "$work/gconv/EARLY.so"
	printf 'module LIMPET-TEST// INTERNAL EARLY 1\nmodule INTERNAL LIMPET-TEST// EARLY 1\n' >"$work/gconv/gconv-modules"
	start comer env GCONV_PATH="$work/gconv" "$TARGETS/comer"
	attach "$pid"
	tell comer convert converted
	ended_well "$pid"
	same "blocks of its constructor" "$(site_sum early_begin allocations)" 1000
	same "blocks of its first function" "$(site_sum early_more allocations)" 70
	finish comer
}

# bats test_tags=release
@test "a constructor that forks: parent and child are clean" {
	captured comer
	tell comer forks forks
	tell comer "open $TARGETS/early-now.so" opened
	ended_well "$pid"
	same "blocks of the constructor" "$(site_sum early_begin allocations)" 1000
	finish comer
}

@test "dlsym answers with the program's own functions, and what it is given is put back" {
	local load
	for load in "" dlopen map; do
		captured "by-$load"
		tell "by-$load" answers answered
		ended_well "$pid"
		tell "by-$load" answers answered
		finish "by-$load"
	done
}

@test "a program that compares the address of malloc with what dlsym answers finds them equal" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/equal"
		tell "by-$load" compare equal
		attach "$pid"
		tell "by-$load" compare equal
		stop "$pid"
		tell "by-$load" compare equal
		finish "by-$load"
	done
}

# The numbers are those that a preloaded allocator counts which looks at its callers.
@test "what the dynamic linker allocates for threads, each block" {
	local load
	for load in "" dlopen map; do
		captured "by-$load"
		tell "by-$load" "open $TARGETS/early-now.so" opened
		tell "by-$load" "threads 100" threads
		ended_well "$pid"
		same "tables of threads" "$(site_sum pthread_create allocations)" 100
		same "a module's data of threads" "$(site_sum early_touch allocations)" 100
		(($(site_sum early_touch allocated_bytes) >= 100 * 5000)) || fail "they are too small"
		tell "by-$load" "threads 100" threads
		tell "by-$load" close closed
		tell "by-$load" "threads 100" threads
		finish "by-$load"
	done
}

@test "frees by an address in a table of the program are seen; by one that it had stored itself they are told of" {
	captured table
	tell table "table 100" table
	ended_well "$pid"
	same "blocks" "$(site_sum comer_free_by allocations)" 100
	same "what of them is live" "$(site_sum comer_free_by live_allocations)" 0
	finish table
	captured comer
	tell comer "stored 100" stored
	stop "$pid" 4
	report
	expect '.totals.inferred_frees > 0 and .capture.dropped_events == 0 and (.capture.complete | not) and
		(.capture.incomplete_because | test("^at least [0-9]+ frees were not seen"))'
	finish comer
}

# As postgres has libxml2's xmlFree.
@test "frees by an address in a library's variable, of which the program has a copy" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/copied"
		attach "$pid"
		tell "by-$load" "free 100" freed
		ended_well "$pid"
		same "blocks" "$(site_sum copied_allocate allocations)" 100
		same "what of them is live" "$(site_sum copied_allocate live_allocations)" 0
		tell "by-$load" "free 10" freed
		finish "by-$load"
	done
}

# As babl does: to it, a change of the one that it has not noted would be one of malloc.
@test "a variable that holds malloc's address, which the program has noted elsewhere: both stay, and it is said" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/keeper"
		attach "$pid"
		tell "by-$load" "work 100" worked
		stop "$pid" 4
		report
		expect '.capture.incomplete_reasons == ["slots"] and .totals.foreign_frees == 100'
		[[ $(<"$work/attach.$captures.err") == *"1 place that calls an allocator could not be hooked"* ]]
		nothing_of_ours "$pid"
		tell "by-$load" "work 10" worked
		finish "by-$load"
	done
}

# table_of PID: what libc says where its functions are, as the program has it in memory.
table_of() {
	local range
	range=$(awk '/r--p 00000000 .*libc\.so/ { print $1; exit }' "/proc/$1/maps")
	[[ -n $range ]] || fail "no libc in the maps" || return 1
	dd if="/proc/$1/mem" iflag=skip_bytes,count_bytes skip=$((16#${range%-*})) \
		count=$((16#${range#*-} - 16#${range%-*})) bs=64K status=none | sha256sum
}

# bats test_tags=release
@test "limpet is killed, and modules come after it: the next one puts back what was bound to the agent" {
	local load module
	for load in "" dlopen map; do
		for module in now lazy; do
			start "by-$load-$module" "$TARGETS/comer"
			table_of "$pid" >before
			attach "$pid"
			kill -KILL "$limpet_job"
			wait "$limpet_job" || true
			limpet_jobs=()
			tell "by-$load-$module" "lazy $TARGETS/early-$module.so" opened
			tell "by-$load-$module" "more 10" more
			! table_of "$pid" | cmp -s - before || fail "symbols do not lead to the agent" || return 1
			cleaned_up "$pid" || fail "$load $module" || return 1
			table_of "$pid" | cmp - before || fail "$load: symbols are not as they were" || return 1
			tell "by-$load-$module" answers answered
			tell "by-$load-$module" "more 10" more
			tell "by-$load-$module" close closed
			finish "by-$load-$module" || return 1
		done
	done
}

@test "where libc says that its functions are is the same after a capture, and so are the mappings" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/comer"
		table_of "$pid" >before
		look "$pid"
		attach "$pid"
		table_of "$pid" | cmp -s - before && fail "symbols do not lead to the agent"
		ended_well "$pid"
		table_of "$pid" | cmp - before
		unchanged "$pid"
		finish "by-$load"
	done
}

# A hook of the loader's makes no call that the loader would not make.
@test "a module is loaded, then mprotect and futex are forbidden, then dlsym is called" {
	captured comer
	tell comer "open $TARGETS/early-now.so" opened
	tell comer shut shut
	tell comer "ask 1000" asked
	tell comer "more 10" more
	stop "$pid" 5
	report
	expect '.capture.complete and (.capture.agent_unloaded | not)'
	same "blocks of the constructor" "$(site_sum early_begin allocations)" 1000
	tell comer "ask 10" asked
	finish comer
}
