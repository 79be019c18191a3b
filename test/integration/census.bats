#!/usr/bin/env bats
# limpet explain --objects: blocks of a heap, which test/targets/census made and has counted.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

# take FILE: the census of the target, into FILE.
take() {
	within 60 "$LIMPET" explain "$pid" --objects --json >explain.json 2>explain.err || fail "$(<explain.err)"
	jq .census explain.json >"$1"
}

# accounts_for FILE NAME ARENAS: what is in use, says the target's mallinfo2, to the byte: blocks with their heads, those
# in caches, and the caches themselves, which take 656 bytes for each thread; one that is empty is a block in use. An
# arena other than the main one begins with 2240 bytes of its own, since glibc 2.35 with 2256.
accounts_for() {
	tell "$2" info info || return 1
	says_in "$1" '($info.arena - $info.fordblks - (.bytes_low + 8 * .blocks_low + .cached.bytes)) as $rest |
		.exact and .blocks_low == .blocks_high and .bytes_low == .bytes_high and
		any(2240, 2256; (($rest - . * $others) / 656) as $caches |
			$caches == ($caches | floor) and $caches >= 0 and $caches <= 1 + $others)' \
		--argjson info "${answer#info }" --argjson others "$3"
}

@test "objects of two classes, strings, untouched blocks and freed ones are counted exactly" {
	start census "$TARGETS/census"
	take before.json
	accounts_for before.json census 0
	tell census make "done"
	take made.json
	accounts_for made.json census 0
	says_in made.json '.types == [{"blocks": 1000, "bytes": 56000, "type": "census::Alpha"},
		{"blocks": 400, "bytes": 28800, "type": "census::Beta<census::NumberWithANameThatIsLongerThanTheColumnOfNames>"}] and
		.typed == {"blocks": 1400, "bytes": 84800}'
	says_in made.json '.blocks_low == $before[0].blocks_low + 1000 + 400 + 600 + 500 + 10 and
		.strings.blocks == $before[0].strings.blocks + 600 and
		.untouched.blocks == $before[0].untouched.blocks + 10 and
		.untouched.bytes == $before[0].untouched.bytes + 10 * 100008 and .cached.blocks == 0' \
		--slurpfile before before.json
	# malloc(100000), in a chunk of 100016 bytes.
	says_in made.json 'any(.sizes[]; .from_bytes == 65536 and .to_bytes == 131071 and .blocks_low >= 10) and
		([.sizes[].blocks_low] | add) == .blocks_low and ([.sizes[].bytes_high] | add) == .bytes_high'
	# Free chunks in the cache of the thread are not in use, although their heads say so: seven of each size.
	tell census drop "done"
	take dropped.json
	accounts_for dropped.json census 0
	says_in dropped.json '[.types[] | [.type, .blocks]] == [["census::Alpha", 500], ["census::Beta<census::NumberWithANameThatIsLongerThanTheColumnOfNames>", 200]] and
		.strings.blocks == $made[0].strings.blocks - 300 and .cached.blocks >= 4 * 7 and
		($made[0].blocks_low - .blocks_low - (500 + 200 + 300 + 250) | . == 0 or . == 1)' \
		--slurpfile made made.json
	run -0 "$LIMPET" explain "$pid" --objects
	[[ $output == *"In use in the heap of glibc: "*"500 "*"census::Alpha"*"200 "*"census::Beta<census::NumberWithANameThatIsLongerThanTheColumnOfNames>"$'\n'*"strings"* ]] ||
		fail "$output"
	# The rows add up.
	unknown=$(jq '.blocks_low - .typed.blocks - .strings.blocks' dropped.json)
	((unknown >= 250 && unknown < 1000))
	grep -qE "^ +$unknown .* of unknown contents\$" <<<"$output" || fail "$output"
	grep -A1 " of unknown contents" <<<"$output" | grep -q " all of these" || fail "$output"
	# On a terminal a name is cut, and says so.
	TERM=xterm within 60 script -qec "stty cols 80; '$LIMPET' explain $pid --objects" /dev/null </dev/null | tr -d '\r' >terminal.say
	grep -q 'census::Beta<census::Number.*\.\.\.$' terminal.say || fail "$(<terminal.say)"
	[[ ! $(<terminal.say) =~ [^$'\n']{81} ]] || fail "$(<terminal.say)"
	# First the account, then what limpet is busy with, which it erases, then the census. Others get no such line.
	[[ $(<terminal.say) =~ resident.*sum.*counting' the blocks in use...'[^$'\n']*$'\e[K'.*'In use in the heap of glibc' ]] ||
		fail "$(<terminal.say)"
	within 60 "$LIMPET" explain "$pid" --objects >piped.say 2>&1
	[[ $(<piped.say) =~ resident.*sum.*'In use in the heap of glibc' && $(<piped.say) != *counting* ]] || fail "$(<piped.say)"
	# Without the option there is none.
	within 60 "$LIMPET" explain "$pid" --json >plain.json
	says_in plain.json '.census == null'
	finish census
}

@test "blocks with mappings of their own, and a heap that changes" {
	start census "$TARGETS/census"
	tell census make "done"
	take made.json
	tell census map "done"
	take mapped.json
	says_in mapped.json '.exact and .blocks_low == $made[0].blocks_low + 3 and
		.bytes_low == $made[0].bytes_low + 3 * (1048576 + 4096 - 16) and
		.untouched == $made[0].untouched' --slurpfile made made.json
	tell census churn "done"
	# However it changes: what is there all the time is in both readings.
	take changing.json
	says_in changing.json '.blocks_low >= 2510 + 3 and [.types[].blocks] == [1000, 400] and
		(.blocks_high == null or .blocks_high >= .blocks_low) and .strings.blocks >= 600'
	finish census
}

@test "arenas of threads, with fastbins and caches" {
	start explained "$TARGETS/explained"
	tell explained "arenas 4" taken
	tell explained "small 20000" taken
	take census.json
	accounts_for census.json explained 4
	says_in census.json '.blocks_low > 4 * 1000 + 1000'
	says_in census.json '.cached.blocks > 5 * 7 and .types == []'
	finish explained
}

@test "caches of threads that hold more than usual" {
	GLIBC_TUNABLES=glibc.malloc.tcache_count=65535 start explained "$TARGETS/explained"
	tell explained "small 60000" taken
	take census.json
	accounts_for census.json explained 0
	# Of each of the six sizes more than 4096.
	says_in census.json '.cached.blocks > 6 * 4096 and .blocks_low < 10000'
	finish explained
}

@test "a process without glibc's malloc has none" {
	start storm "$TARGETS/storm-musl" --threads 1
	take none.json
	says_in none.json '. == null'
	run -0 "$LIMPET" explain "$pid" --objects
	[[ $output == *"There is no heap of glibc's malloc, jemalloc, mimalloc or tcmalloc to count."* ]]
	finish storm
}

# By its own statistics, after the caches of the thread were emptied.
@test "jemalloc: blocks by size class, as many bytes as it says itself" {
	local made
	MALLOC_CONF=dirty_decay_ms:-1 start explained "$TARGETS/explained-jemalloc"
	tell explained "fragment 300000" taken
	tell explained "small 100000" taken
	tell explained "blocks 20" taken
	tell explained "info" info
	made=${answer#info }
	within 60 "$LIMPET" explain "$pid" --objects --json >explain.json
	says_in explain.json '.class_censuses | length == 1 and (.[0] | .allocator == "jemalloc" and .exact and .whole and .bytes_low == $info.allocated and
		.bytes_high == .bytes_low and .blocks_low > 10000 and
		([.sizes[].bytes_low] | add) == .bytes_low and
		all(.sizes[]; .from_bytes == .to_bytes and .bytes_low == .blocks_low * .to_bytes))' --argjson info "$made"
	run -0 "$LIMPET" explain "$pid" --objects
	[[ $output == *"In the heap of jemalloc, in use or in caches of threads: "*"two readings agree"* ]] || fail "$output"
	finish explained
}

# holds TARGET: in the census are as many blocks of each size as the target has, which does not count those that malloc
# itself and threads need.
holds() {
	local held
	tell "$1" held held || return 1
	held=${answer#held }
	within 60 "$LIMPET" explain "$pid" --objects --json >explain.json 2>explain.err || fail "$(<explain.err)"
	says_in explain.json '.class_censuses | length == 1 and (.[0] | .allocator == "mimalloc" and .exact and .whole and
		(.sizes | map({(.to_bytes | tostring): .blocks_low}) | add) as $sizes |
		all($held | to_entries[]; $sizes[.key] == .value) and .blocks_low - ($held | add) < 20)' --argjson held "$held"
}

# bats test_tags=release
@test "mimalloc: blocks by size class, as many as the program has, whoever frees them" {
	local library command
	library=$(PATH=$PATH:/sbin ldconfig -p | awk '/libmimalloc\.so/ { print $NF; exit }')
	[[ $library ]] || skip "libmimalloc is not installed"
	LD_PRELOAD=$library start classes "$TARGETS/classes"
	for command in "make 24 5000" "thread 72 20000" "make 640 3000" "make 50000 200" "make 200000 20" \
		"make 5000000 3" "make 40000000 1" "make 17000000 2" "make 31000000 2" "thread 24 30000" "leave 72 3000" "drop 7" "elsewhere 5" "elsewhere 3" \
		"leave 200000 10" "drop 3" "elsewhere 2" "make 72 10000" "elsewhere 9"; do
		tell classes "$command" "done"
		[[ $command == "make 24 5000" ]] || holds classes
	done
	run -0 "$LIMPET" explain "$pid" --objects
	[[ ${output//$'\n'/ } == *"In the heap of mimalloc, in use: "*"two readings agree"* ]] || fail "$output"
	finish classes
}

# counts TARGET COMMAND: it does that, and then the census is as many bytes as tcmalloc says itself are in use or in caches of
# threads, and at least the blocks that the target holds.
counts() {
	local held bytes
	tell "$1" "$2" "done" || return 1
	tell "$1" held held || return 1
	held=${answer#held }
	tell "$1" bytes bytes || return 1
	bytes=${answer#bytes }
	within 60 "$LIMPET" explain "$pid" --objects --json >explain.json 2>explain.err || fail "$(<explain.err)"
	says_in explain.json '.class_censuses | length == 1 and (.[0] | .allocator == "tcmalloc" and .exact and .whole and
		.bytes_low == $bytes and .bytes_high == $bytes and ([.sizes[].bytes_low] | add) == $bytes and
		all(.sizes[]; .from_bytes == .to_bytes and .bytes_low == .blocks_low * .to_bytes) and
		(.sizes | map({(.to_bytes | tostring): .blocks_low}) | add) as $sizes |
		all($held | to_entries[]; $sizes[.key] >= .value))' --argjson held "$held" --argjson bytes "$bytes"
}

# Preloaded, linked in, and linked in statically.
# bats test_tags=release
@test "gperftools' tcmalloc: blocks by size class, as many bytes as it says itself" {
	local library libraries command name=classes
	libraries=$(PATH=$PATH:/sbin ldconfig -p | awk '/libtcmalloc(_minimal)?\.so\.4/ { print $NF }')
	for library in $libraries "" -static; do
		name+=x
		if [[ $library == /* ]]; then
			LD_PRELOAD=$library start "$name" "$TARGETS/classes"
		else
			start "$name" "$TARGETS/classes-tcmalloc$library"
		fi
		for command in "make 24 50000" "thread 72 20000" "make 640 3000" "make 50000 200" "make 5000000 3" \
			"leave 72 3000" "drop 7" "elsewhere 5" "make 300000 20" "drop 2" "make 262144 10" "drop 1" "make 9000 100"; do
			counts "$name" "$command"
		done
		run -0 "$LIMPET" explain "$pid" --objects
		[[ ${output//$'\n'/ } == *"In the heap of tcmalloc, in use or in caches of threads or the central one: "*"two readings agree"* ]] || fail "$output"
		finish "$name"
	done
}

# What changes all the time is counted from one reading to the other; what stays is there in both.
@test "gperftools' tcmalloc: a heap that changes" {
	local held i whole=0
	start classes "$TARGETS/classes-tcmalloc"
	tell classes "make 24 20000" "done"
	tell classes "make 5000000 3" "done"
	tell classes held held
	held=${answer#held }
	tell classes "churn 3" "done"
	for ((i = 0; i < 50 && whole < 3; i++)); do
		within 60 "$LIMPET" explain "$pid" --objects --json >explain.json 2>explain.err || fail "$(<explain.err)"
		# One that was missed in part has less; none has more.
		says_in explain.json 'all(.class_censuses[] | select(.sizes);
			(.sizes | map({(.to_bytes | tostring): .blocks_low}) | add) as $sizes |
			($sizes["5005312"] // 0) <= 3 and
			all(.sizes[]; .to_bytes < 610000 or .to_bytes == 5005312 or .blocks_low == 0) and
			if .whole then .blocks_low >= ($held | add) and .blocks_high >= .blocks_low and
				$sizes["5005312"] == 3 and $sizes["32"] >= $held["32"]
			else .blocks_high == null end)' --argjson held "$held"
		! jq -e '.class_censuses[0].whole' explain.json >whole.json || whole=$((whole + 1))
	done
	((whole == 3)) || fail "after 50 censuses $whole were whole"
	finish classes
}
