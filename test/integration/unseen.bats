#!/usr/bin/env bats
# Memory of no allocator that limpet follows: said, with its growth, and nothing else is taken for it.
# time-limit: 120

load helpers
setup() { begin; }
teardown() { end; }

mib=1048576

# regions COMMAND...: which has done these before the capture.
regions() {
	local command
	start regions "$TARGETS/regions"
	for command in "$@"; do
		tell regions "$command" "done"
	done
}

# captured COMMAND...: done during a capture.
captured() {
	local command
	attach "$pid" || return 1
	for command in "$@"; do
		tell "${target:-regions}" "$command" "${answered:-done}" || return 1
	done
	stop "$pid" || return 1
	good_capture || return 1
	"$LIMPET" report "$trace" >report.txt
}

# about VALUE MIB: within half a MiB. Pages that were only ever read count as there, and are not resident.
about() {
	local bytes
	bytes=$(jq "$1" report.json)
	((bytes > $2 * mib - mib / 2 && bytes < $2 * mib + mib / 2)) || fail "$1: $bytes instead of about $2 MiB"
}

says() {
	grep -qF "$1" "${2:-report.txt}" || fail "not said: $1"$'\n'"$(head -n 20 "${2:-report.txt}")"
}
says_not() {
	! grep -qF "$1" "${2:-report.txt}" || fail "said: $1"
}

@test "an arena that nobody knows grows: said, with its growth" {
	regions "take 26"
	"$LIMPET" doctor "$pid" >doctor.txt
	says "belong to no allocator that limpet follows" doctor.txt
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says ".unfollowed_bytes > 25 * $mib and .unfollowed_bytes < 27 * $mib" <doctor.json
	captured "take 12"
	about .unfollowed.bytes 38
	about .unfollowed.growth_bytes 12
	expect '.unfollowed.large and .unfollowed.grows and .unfollowed.names == null and .capture.complete'
	says "unseen    "
	says "they grew by 1"
	says_not "every event is in the trace"
	says "every event of glibc"
	expect '.verdict.kind == "mapping"'
	finish regions
}

# What is loaded by that name is taken for a JVM.
@test "the heap of a runtime grows: no sentence says that nobody is known to own it" {
	gcc -shared -o libjvm.so -xc /dev/null
	LD_PRELOAD=$PWD/libjvm.so regions "take 26"
	"$LIMPET" doctor "$pid" >doctor.txt
	says "not followed: the heap of the JVM" doctor.txt
	captured "take 12"
	expect '.unfollowed.names == "the heap of the JVM"'
	"$LIMPET" explain "$trace" --json >explain.json
	json_says '.resident.parts[] | select(.name == "anonymous mappings").text | test("[(][+]1[12][.]")' <explain.json ||
		fail "$(<explain.json)"
	finish regions
}

@test "an arena that nobody knows does not grow: said, without growth" {
	regions "take 26"
	captured "heap 1"
	about .unfollowed.bytes 26
	expect '.unfollowed.large and (.unfollowed.grows | not)'
	says "belong to no allocator that limpet follows"
	says_not "they grew by"
	says_not "every event is in the trace"
	finish regions
}

@test "a small arena grows: said" {
	regions "take 1"
	captured "take 2"
	about .unfollowed.growth_bytes 2
	expect '(.unfollowed.large | not) and .unfollowed.grows'
	says "they grew by 2."
	finish regions
}

# The same by calls of mmap that the capture saw, and by one that it did not.
@test "heap, arenas, large blocks, stacks and mappings are not unknown" {
	regions "heap 40" "arena 30" "threads 20"
	"$LIMPET" doctor "$pid" >doctor.txt
	says_not "belong to no allocator" doctor.txt
	captured "heap 30" "arena 40" "threads 10" "map 2"
	expect ".unfollowed.bytes < $mib / 2 and (.unfollowed.large | not) and (.unfollowed.grows | not)"
	expect ".resident.parts[] | select(.name == \"glibc's heap\") | .before_bytes >= 70 * $mib and .bytes >= 140 * $mib"
	expect ".resident.parts[] | select(.name == \"thread stacks\") | .before_bytes >= 10 * $mib and .bytes >= 15 * $mib"
	about '.resident.parts[] | select(.name == "anonymous mappings") | .bytes - .before_bytes' 2
	says "losses    none: every event is in the trace"
	says_not "belong to no allocator"
	captured "raw 3"
	about .unfollowed.growth_bytes 3
	finish regions
}

# track: allocator | a library with jemalloc inside, hidden and stripped | attach | what goes through libc; the library is named, with the resident memory that stays unseen
@test "jemalloc in a stripped library: named and counted" {
	local target=bundled answered=ran
	start bundled "$TARGETS/bundled-stripped"
	tell bundled "run 200000" ran
	"$LIMPET" doctor "$pid" >doctor.txt
	says "not followed: jemalloc in libbundle-stripped.so" doctor.txt
	says "MiB RSS belong to no allocator that limpet follows" doctor.txt
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '.unfollowed == "jemalloc in libbundle-stripped.so"' <doctor.json
	captured "run 1000"
	grep -q 'warning: .*(jemalloc in libbundle-stripped.so)' attach.1.err || fail "$(<attach.1.err)"
	[[ $(sed '1,/^$/d' report.txt | sed -n 2p) == "unseen    "*"(jemalloc in libbundle-stripped.so)" ]] || fail "$(<report.txt)"
	says "; nothing of jemalloc in libbundle-stripped.so"
	expect ".unfollowed.large and .unfollowed.bytes > 6 * $mib"
	expect '.unfollowed.names == "jemalloc in libbundle-stripped.so"'
	says "jemalloc in"
	says_not "every event is in the trace"
	finish bundled
}

@test "jemalloc in a library whose name is a long hash: named by its directory and both ends of it; its whole path once" {
	local target=bundled answered=ran hash=072bb3b2c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f7081.node
	mkdir addons
	cp "$TARGETS/libbundle-stripped.so" addons/$hash
	ln -s $hash addons/libbundle-stripped.so
	LD_LIBRARY_PATH=addons start bundled "$TARGETS/bundled-stripped"
	tell bundled "run 200000" ran
	"$LIMPET" doctor "$pid" >doctor.txt
	says "not followed: jemalloc in addons/072bb3b2c4d5...c4d5e6f7081.node" doctor.txt
	grep -q "^ *$(readlink -f addons)/$hash\$" doctor.txt || fail "$(<doctor.txt)"
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '.unfollowed_files == [$path]' --arg path "$(readlink -f addons)/$hash" <doctor.json
	captured "run 1000"
	expect '.unfollowed.names == "jemalloc in addons/072bb3b2c4d5...c4d5e6f7081.node"'
	finish bundled
}

# What it holds is mapped during the capture, or was set aside before.
# bats test_tags=release
@test "jemalloc in a stripped library, which begins during the capture: named" {
	local target=bundled answered=ran
	start bundled "$TARGETS/bundled-stripped"
	captured "run 200000"
	expect '.unfollowed.names == "jemalloc in libbundle-stripped.so"'
	says "jemalloc in libbundle-stripped.so"
	says_not "every event is in the trace"
	finish bundled
}

# Its module sets pointers of libmpdec, which begin as malloc and free, to functions of its own.
@test "Debian's python3 with decimal: glibc's malloc alone is followed, and the rest is counted" {
	start python /usr/bin/python3 -c "
import decimal, os, sys
kept = [(i, str(i)) for i in range(100000)]
print('ready', os.getpid(), flush=True)
sys.stdin.readline()"
	attach "$pid"
	stop "$pid"
	good_capture
	expect ".unfollowed.names == \"the heap of CPython\" and .unfollowed.bytes > 6 * $mib"
	"$LIMPET" explain "$trace" --json >explained.json
	json_says '.rss_bytes > 0' <explained.json
	finish python
}

@test "where another allocator is followed nothing is said of the rest" {
	local target=bundled answered=ran
	start bundled "$TARGETS/bundled-hidden"
	tell bundled "run 10000" ran
	captured "run 1000"
	expect '.unfollowed == null'
	says "every event of "
	says_not "belong to no allocator"
	finish bundled
}

# A second reader, and a trace whose writer was killed before it could look again.
@test "the collector is killed: what was there before is in the trace" {
	regions "take 26"
	attach "$pid"
	tell regions "take 12" "done"
	kill -KILL "$limpet_job"
	attached 137
	"$LIMPET" report "$trace" --json >report.json 2>report.err || true
	about .unfollowed.bytes 26
	expect '.resident.moment == "before"'
	within 60 "$LIMPET" stop "$pid" >stop.say 2>&1 || true
	finish regions
}

# memory NAME: kB, of the process.
memory() {
	sed -n "s/^$1:[[:space:]]*\([0-9]*\) kB/\1/p" "/proc/$pid/smaps_rollup"
}

# bats test_tags=release
@test "memory that is shared since a fork stays shared, and files that nobody reads are not read" {
	local shared resident
	mkdir files
	start sharing "$TARGETS/sharing" files
	shared=$(memory Shared_Dirty) resident=$(memory Rss)
	((shared > 60000)) || fail "$shared kB are shared"
	within 60 "$LIMPET" doctor "$pid" >/dev/null
	attach "$pid"
	tell sharing "work 1000" worked
	stop "$pid"
	good_capture
	# limpet writes to pages of libraries, and each process has touched some of its own.
	(($(memory Shared_Dirty) > shared - 4000)) || fail "$(memory Shared_Dirty) of $shared kB are shared still"
	(($(memory Rss) < resident + 8000)) || fail "$(memory Rss) kB resident after $resident"
	finish sharing
}
