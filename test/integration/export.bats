#!/usr/bin/env bats
# limpet export: each format is read by the program that it is for, which has to find our sums.
# time-limit: 400

load helpers
setup() { begin; }
teardown() { end; }

traces=$root/test/traces

needs() {
	command -v "$1" >/dev/null || skip "$1 is not installed"
}

# A capture whose sums are known: test/targets/kinds, the same calls in every run. One for all tests, as they
# only read it.
setup_file() {
	begin
	within 120 "$LIMPET" run -q "${patiently[@]}" -o "$BATS_FILE_TMPDIR/kinds.limpet" -- "$TARGETS/kinds" >run.say 2>run.err ||
		fail "limpet run: $(<run.err)" || return 1
	"$LIMPET" report "$BATS_FILE_TMPDIR/kinds.limpet" --json >"$BATS_FILE_TMPDIR/report.json"
	BATS_TEST_COMPLETED=1 end
}
use_kinds() {
	trace=$BATS_FILE_TMPDIR/kinds.limpet
	cp "$BATS_FILE_TMPDIR/report.json" .
}

export_to() {
	within 60 "$LIMPET" export "$trace" --format "$1" -o "$2" "${@:3}" 2>export.err || fail "limpet export $*: $(cat export.err)"
}

total() {
	jq ".totals.$1" report.json
}

@test "heaptrack_print finds our allocations, peak and leaks" {
	needs heaptrack_print
	for trace in "$traces"/{cpp,rust,node,storm}.trace kinds; do
		[[ $trace != kinds ]] || use_kinds || return 1
		"$LIMPET" report "$trace" --json >report.json
		export_to heaptrack out.zst || return 1
		# It prints 1.23M: the stacks that it draws flames from say the bytes.
		heaptrack_says peak || return 1
		same "$trace: calls" "$(sed -n 's/^calls to allocation functions: \([0-9]*\).*/\1/p' print.say)" "$(total allocations)"
		same "$trace: peak" "$said" "$(total peak_bytes)" || return 1
		heaptrack_says leaked || return 1
		same "$trace: leaked" "$said" "$(total live_bytes)" || return 1
	done
	grep -q 'kinds_small' print.say
	grep -q 'kinds.c:[0-9]' print.say
}
# heaptrack_says COST: its sum over all stacks, in `said`.
heaptrack_says() {
	within 100 heaptrack_print --disable-builtin-suppressions --disable-embedded-suppressions \
		-f out.zst -F flames --flamegraph-cost-type "$1" >print.say 2>print.err || fail "heaptrack_print" || return 1
	said=$(awk '{ sum += $NF } END { printf "%d\n", sum }' flames)
}

@test "go tool pprof finds every sample type's sum, mappings and build-ids" {
	needs go
	use_kinds
	export_to pprof out.pb.gz
	local type figure
	for type in alloc_objects:allocations alloc_space:allocated_bytes inuse_objects:live_allocations \
		inuse_space:live_bytes peak_space:peak_bytes temporary_objects:temporary_allocations; do
		figure=${type#*:}
		within 60 go tool pprof -sample_index="${type%:*}" -unit B -top -nodecount=2000 -nodefraction=0 \
			out.pb.gz >top 2>top.err || fail "go tool pprof: $(cat top.err)" || return 1
		same "$type" "$(sed -n 's/.* of \([0-9]*\)[A-Za-z]* total.*/\1/p' top)" "$(total "$figure")"
	done
	within 60 go tool pprof -sample_index=inuse_space -unit B -top out.pb.gz >top 2>&1
	grep -qE '^ *640000B.* kinds_small' top
	within 60 go tool pprof -raw out.pb.gz >raw 2>&1
	grep -q 'kinds.c:[0-9]* s=0' raw || grep -q 'kinds_small .*kinds.c:[0-9]' raw
	same "build-id" "$(sed -n 's/.*\/kinds \([0-9a-f]*\).*/\1/p' raw | head -n 1)" \
		"$(jq -r '.modules[] | select(.module | endswith("/kinds")) | .build_id' report.json)"
	# Plain too, through a pipe.
	"$LIMPET" export "$trace" --format pprof >out.pb
	within 60 go tool pprof -sample_index=inuse_space -unit B -top out.pb >plain 2>&1
	same "plain" "$(grep -c . plain)" "$(within 60 go tool pprof -sample_index=inuse_space -unit B -top out.pb.gz 2>&1 | grep -c .)"
}

@test "folded stacks add up, and merge" {
	use_kinds
	local sort
	for sort in live:live_bytes peak:peak_bytes allocations:allocations allocated:allocated_bytes; do
		export_to folded out.folded --sort "${sort%:*}"
		same "$sort" "$(awk '{ sum += $NF } END { printf "%d\n", sum }' out.folded)" "$(total "${sort#*:}")"
	done
	# Each stack is there once.
	export_to folded out.folded --sort live
	(($(wc -l <out.folded) > 3))
	same "twice" "$(sed 's/ [0-9]*$//' out.folded | sort | uniq -d)" ""
	export_to folded out.folded --sort live --include '^kinds_small$'
	same "stacks" "$(cat out.folded)" "main;kinds_small 640000"
}

@test "folded stacks have the names of our views, with --full the whole ones" {
	trace=$traces/node.trace
	local options
	"$LIMPET" report "$trace" --json >report.json
	for options in "" --full; do
		export_to folded "out$options.folded" --sort live $options || return 1
		same "live $options" "$(awk '{ sum += $NF } END { printf "%d\n", sum }' "out$options.folded")" "$(total live_bytes)" || return 1
		same "twice $options" "$(sed 's/ [0-9]*$//' "out$options.folded" | sort | uniq -d)" "" || return 1
	done
	grep -q ';node::LibuvStreamWrap::OnUvRead;' out.folded
	grep -q ';node::LibuvStreamWrap::OnUvRead(long, uv_buf_t const\*);' out--full.folded
	# `operator()` and `(anonymous namespace)` alone keep theirs.
	same "parameters" "$(sed 's/(anonymous namespace)//g; s/(unknown code)//g; s/operator()//g' out.folded | grep '(')" ""
	# Half of it, or less.
	((2 * $(wc -c <out.folded) <= $(wc -c <out--full.folded)))
}

# bats test_tags=release
@test "speedscope reads the stacks that we wrote" {
	local package=$TARGETS/npm/node_modules/speedscope
	needs chromedriver
	[[ -d $package ]] || skip "npm did not bring speedscope ($TARGETS/npm)"
	local name files=()
	for name in cpp rust node kinds; do
		trace=$traces/$name.trace
		[[ $name != kinds ]] || use_kinds || return 1
		export_to folded "$name.folded" --full || return 1
		files+=("$name.folded" "$name.read")
	done
	HOME=$work within 100 "$root/test/html/speedscope" "$package" "${files[@]}" 2>read.err || fail "speedscope: $(<read.err)" || return 1
	for name in cpp rust node kinds; do
		LC_ALL=C sort -o "$name.folded" "$name.folded"
		LC_ALL=C sort -o "$name.read" "$name.read"
		[[ -s $name.read ]] && cmp "$name.folded" "$name.read" || fail "$name: speedscope read something else" || return 1
	done
	same "total" "$(awk '{ sum += $NF } END { printf "%d\n", sum }' kinds.read)" "$(total peak_bytes)"
}

@test "ms_print draws the peak and the end" {
	needs ms_print
	use_kinds
	export_to massif out.massif
	within 60 ms_print out.massif >print.say 2>print.err || fail "ms_print: $(cat print.err)"
	grep -q 'kinds_vector (kinds.c)\|kinds_vector (.*kinds.c)' print.say
	same "peak" "$(awk -F= '/^mem_heap_B=/ { bytes = $2 } /^heap_tree=peak/ { print bytes }' out.massif)" "$(total peak_bytes)"
	same "live" "$(awk -F= '/^mem_heap_B=/ { bytes = $2 } END { print bytes }' out.massif)" "$(total live_bytes)"
	# No snapshot is higher than the peak; times ascend; children are no more than their parent.
	awk -F= -v peak="$(total peak_bytes)" '/^time=/ { if ($2 + 0 < last) exit 1; last = $2 } /^mem_heap_B=/ && $2 > peak { exit 1 }' out.massif
	python3 - out.massif <<-'EOF'
		import re, sys
		stack = []
		for line in open(sys.argv[1]):
		    match = re.match(r"( *)n(\d+): (\d+) ", line)
		    if not match:
		        assert all(n == 0 and below <= own for n, below, own in stack), line
		        stack = []
		        continue
		    depth, children, own = len(match[1]), int(match[2]), int(match[3])
		    while len(stack) > depth:
		        n, below, parent = stack.pop()
		        assert n == 0 and below <= parent, line
		    assert len(stack) == depth, line
		    if stack:
		        stack[-1][0] -= 1
		        stack[-1][1] += own
		    stack.append([children, 0, own])
	EOF
}

@test "callgrind_annotate finds the totals" {
	needs callgrind_annotate
	use_kinds
	export_to callgrind out.callgrind
	within 60 callgrind_annotate --threshold=100 out.callgrind >print.say 2>print.err || fail "callgrind_annotate: $(cat print.err)"
	# Live LiveBlocks Peak Allocated Allocations Temporary
	same "totals" "$(sed -n '/PROGRAM TOTALS/ { s/,//g; s/([^)]*)//g; s/ PROGRAM.*//; s/  */ /g; s/^ //; s/ $//; p }' print.say)" \
		"$(jq -r '.totals | "\(.live_bytes) \(.live_allocations) \(.peak_bytes) \(.allocated_bytes) \(.allocations) \(.temporary_allocations)"' report.json)"
	grep -E '^ *640,000 .*kinds_small' print.say
	within 60 callgrind_annotate --inclusive=yes --threshold=100 out.callgrind >print.say
	grep -E ':main ' print.say | head -n 1
	# The lines add up to the summary.
	same "lines" "$(awk '/^calls=/ { getline; next } /^[0-9]+ / { sum += $2 } END { printf "%d\n", sum }' out.callgrind)" "$(total live_bytes)"
}

@test "csv: the three tables bring the totals and the sites back" {
	use_kinds
	export_to csv out.csv
	[[ -s out.events.csv && -s out.stacks.csv && -s out.frames.csv ]]
	within 100 python3 - >sums.json <<-'EOF'
		import csv, json, sqlite3
		db = sqlite3.connect(":memory:")
		for table in "events", "stacks", "frames":
		    rows = csv.reader(open(f"out.{table}.csv", newline=""))
		    head = next(rows)
		    db.execute(f"create table {table} ({', '.join(head)})")
		    db.executemany(f"insert into {table} values ({', '.join('?' * len(head))})", rows)
		db.execute("create index s on stacks (stack)")
		db.execute("create index f on frames (frame)")
		one = lambda query: db.execute(query).fetchone()[0]
		small = "kind {} and stack in (select stack from stacks join frames using (frame) where function = 'kinds_small')"
		print(json.dumps({
		    "allocations": one("select count(*) from events where kind in ('alloc', 'untracked')"),
		    "allocated_bytes": one("select sum(bytes) from events where kind in ('alloc', 'untracked')"),
		    "frees": one("select count(*) from events where kind in ('free', 'inferred-free')"),
		    "freed_bytes": one("select sum(bytes) from events where kind in ('free', 'inferred-free')"),
		    "temporary_allocations": one("select count(*) from events where temporary = 'true'"),
		    "reallocations": one("select count(*) from events where kind = 'free' and realloc = 'true'"),
		    "foreign_frees": one("select count(*) from events where kind = 'foreign-free'"),
		    "small": one("select count(*) from events where " + small.format("= 'alloc'")),
		    "weights": one("select count(*) from events where weight <> '1'"),
		    "orphans": one("select count(*) from stacks where frame not in (select frame from frames)"),
		}))
	EOF
	json_says --slurpfile sums sums.json '.totals as $t | $sums[0] | .small == 20000 and .orphans == 0 and .weights == 0 and
		(del(.small, .orphans, .weights) | all(to_entries[]; .value == $t[.key]))' <report.json || fail "$(cat sums.json)"
	export_to csv out.csv.zst
	zstd -dcq out.events.csv.zst | cmp - out.events.csv
}

# weighed: of out.events.csv, what the totals of the report are made of.
weighed() {
	python3 - <<-'EOF'
		import csv, json
		sums = dict.fromkeys(("allocations", "allocated_bytes", "frees", "freed_bytes"), 0)
		rows = samples = known = 0
		for row in csv.DictReader(open("out.events.csv", newline="")):
		    names = {"alloc": ("allocations", "allocated_bytes"), "untracked": ("allocations", "allocated_bytes"),
		        "free": ("frees", "freed_bytes"), "inferred-free": ("frees", "freed_bytes")}.get(row["kind"])
		    weight = float(row["weight"])
		    rows += 1
		    samples += weight > 1
		    known += row["temporary"] != ""
		    if names:
		        sums[names[0]] += weight
		        sums[names[1]] += weight * int(row["bytes"])
		    else:
		        assert weight == 1, row
		print(json.dumps({"rows": rows, "samples": samples, "known": known, "sums": sums}))
	EOF
}

@test "csv of samples: each row says how many it stands for" {
	trace=$traces/sampled.trace
	report
	expect '.capture.estimated'
	export_to csv out.csv
	weighed >sums.json
	# The report adds up in parts of 1/256.
	json_says --slurpfile sums sums.json '.totals as $t | $sums[0] | .samples > 1000 and .known == 0 and
		all(.sums | to_entries[]; (.value - $t[.key] | fabs) <= 1 + 0.0001 * .value)' <report.json ||
		fail "$(<sums.json) $(jq -c .totals report.json)"
}

@test "csv: DuckDB reproduces the totals" {
	needs node
	within 120 "$root/scripts/fetch-duckdb" >fetch.say 2>&1 || skip "npm cannot bring DuckDB: $(tail -n 1 fetch.say)"
	use_kinds
	export_to csv out.csv.gz
	cat >query.cjs <<-'EOF'
		const { DuckDBInstance } = require(process.argv[2] + '/build/duckdb/node_modules/@duckdb/node-api');
		(async () => {
		  const connection = await (await DuckDBInstance.create(':memory:')).connect();
		  const reader = await connection.runAndReadAll(`select to_json(t)::varchar from (select
		    sum(weight) filter (kind in ('alloc', 'untracked')) as allocations,
		    sum(weight * bytes) filter (kind in ('alloc', 'untracked')) as allocated_bytes,
		    sum(weight) filter (kind in ('free', 'inferred-free')) as frees,
		    sum(weight * bytes) filter (kind in ('free', 'inferred-free')) as freed_bytes,
		    count(*) filter (temporary) as temporary_allocations,
		    (select count(*) from 'out.events.csv.gz' join 'out.stacks.csv.gz' using (stack)
		      join 'out.frames.csv.gz' using (frame) where kind = 'alloc' and function = 'kinds_churn') as churn
		    from 'out.events.csv.gz') t`);
		  console.log(reader.getRows()[0][0]);
		})();
	EOF
	within 100 node query.cjs "$root" >sums.json
	json_says --slurpfile sums sums.json '.totals as $t | $sums[0] | .churn == 60000 and
		(del(.churn) | length == 5 and all(to_entries[]; (.value | tonumber) == $t[.key]))' <report.json || fail "$(cat sums.json)"
}

# Perfetto's own reader is in no package: its fields are checked as published, and its rules as test/schema/perfetto has
# them.
perfetto_says() {
	export_to perfetto out.pftrace "$@" || return 1
	protoc -I"$root/test/schema" --decode=Trace perfetto.proto <out.pftrace >out.txt 2>protoc.err ||
		fail "protoc: $(<protoc.err)" || return 1
	"$root/test/schema/perfetto" out.txt >sums.json 2>perfetto.err || fail "$(<perfetto.err)"
}

@test "Perfetto: dumps of the heap and counters, as published, with the sums of the report" {
	needs protoc
	for trace in "$traces"/{cpp,rust,node,storm}.trace kinds; do
		[[ $trace != kinds ]] || use_kinds || return 1
		"$LIMPET" report "$trace" --json >report.json
		perfetto_says || return 1
		json_says --slurpfile sums sums.json '. as $r | .totals as $t | $sums[0] |
			.self_allocated == $t.allocated_bytes and .self_freed == $t.freed_bytes and
			.alloc_count == $t.allocations and .free_count == $t.frees and .packets >= 1 and
			.counters["live bytes"] == [$r.timeline[].live_bytes]' <report.json || fail "$trace: $(cut -c -400 sums.json)" || return 1
	done
	json_says '.live_of.kinds_small == 640000 and .live_of.main >= 640000 and .packets > 1' <sums.json || fail "$(<sums.json)"
	perfetto_says --include '^kinds_small$'
	json_says '.self_allocated - .self_freed == 640000 and .live_of.main == 640000' <sums.json || fail "$(<sums.json)"
	# Only what was allocated in a part of the time, and all that became of it.
	trace=$traces/cpp.trace
	"$LIMPET" report "$trace" --json --born-between 20ms,50ms >report.json
	perfetto_says --born-between 20ms,50ms
	json_says --slurpfile sums sums.json '.totals as $t | $sums[0] | .self_allocated == $t.allocated_bytes and
		.self_freed == $t.freed_bytes and .self_freed < .self_allocated' <report.json || fail "$(<sums.json)"
	# Names that are not UTF-8, and stacks that are lost; protoc says which text is none.
	trace=$traces/lost.trace
	perfetto_says
	same "protoc" "$(<protoc.err)" ""
}

@test "files of some blocks alone say which these are, where the format has a place for it" {
	local words="only blocks allocated between the start and 50ms" format
	trace=$traces/cpp.trace
	for format in massif callgrind pprof firefox perfetto; do
		export_to $format "out.$format" --born-between ,50ms || return 1
		grep -qaF "$words" "out.$format" || fail "$format" || return 1
		export_to $format "out.$format" || return 1
		(($(grep -caF "blocks allocated between" "out.$format") == 0)) || fail "$format" || return 1
	done
	export_to massif out.massif --born-between ,50ms
	[[ $(head -1 out.massif) =~ ^"desc: limpet, process "[0-9]+", $words"$ ]] || fail "$(head -1 out.massif)"
	export_to callgrind out.callgrind --born-between ,50ms
	grep -qxF "desc: Data: limpet, $words" out.callgrind
	export_to firefox out.firefox --born-between ,50ms
	json_says --arg words "$words" '.meta.product | endswith(", " + $words)' <out.firefox
	export_to pprof out.pb --born-between ,50ms
	if command -v go >/dev/null; then
		within 60 go tool pprof -comments out.pb 2>/dev/null | grep -qF "$words"
	fi
}

needs_firefox() {
	profiler=$TARGETS/npm/node_modules/@firefox-devtools/profiler-cli
	needs node
	(($(node -p 'process.versions.node.split(".")[0]') >= 20)) || skip "the Firefox Profiler's command needs a newer node"
	[[ -d $profiler ]] || skip "npm did not bring the Firefox Profiler ($TARGETS/npm)"
}
# firefox_says JQ OPTIONS...: opened in the Firefox Profiler's own command; the report is $r, its totals $t, sums over
# all threads $sum.
firefox_says() {
	export_to firefox out.json "${@:2}" || return 1
	rm -rf session
	mkdir session
	HOME=$work within 100 "$root/test/html/firefox" "$profiler" out.json session >found.json 2>found.err || fail "$(<found.err)" || return 1
	json_says --slurpfile r report.json '$r[0].totals as $t | . as $all | ([.threads[]] | {
			retained: (map(."native-retained-allocations") | add), allocated: (map(."native-allocations") | add),
			freed: (map(."native-deallocations-memory") | add)}) as $sum | $all | '"$1" <found.json ||
		fail "$trace: $(cut -c -400 found.json)"
}

# What all threads of a report have, in the Firefox Profiler.
in_firefox='$sum == {retained: $t.live_bytes, allocated: $t.allocated_bytes, freed: $t.freed_bytes}'

# bats test_tags=release
@test "the Firefox Profiler finds allocations, frees and what is retained, by thread" {
	needs_firefox
	use_kinds || return 1
	"$LIMPET" report "$trace" --json >report.json
	firefox_says "$in_firefox"' and ([.counters[].name] | sort) == ["RSS", "live bytes", "mapped bytes"] and
		.threads.kinds.retain["kinds!kinds_small"] == 640000' || return 1
	trace=$traces/cpp.trace
	"$LIMPET" report "$trace" --json --born-between 20ms,50ms >report.json
	firefox_says "$in_firefox and \$sum.retained > 0" --born-between 20ms,50ms || return 1
	# Each thread has its own.
	trace=$traces/storm.trace
	"$LIMPET" report "$trace" --json --view threads >threads.json
	"$LIMPET" report "$trace" --json >report.json
	export_to firefox out.json
	same "threads" "$(jq -c '[.threads[] | {tid, live: ([.nativeAllocations.weight[]?] | add // 0)} | select(.live > 0)] | sort_by(.tid)' out.json)" \
		"$(jq -c '[.threads[] | {tid: .thread, live: .live_bytes} | select(.live > 0)] | sort_by(.tid)' threads.json)"
}

# bats test_tags=release
@test "the Firefox Profiler finds the same in traces of every language, and of what filters keep" {
	needs_firefox
	for trace in "$traces"/{cpp,rust,node,storm}.trace; do
		"$LIMPET" report "$trace" --json >report.json
		firefox_says "$in_firefox"' and ([.counters[].name] | sort) == ["RSS", "live bytes", "mapped bytes"]' || return 1
	done
	use_kinds || return 1
	"$LIMPET" report "$trace" --json >report.json
	firefox_says '$sum.retained == 640000' --include '^kinds_small$'
}

@test "a compact capture: Perfetto and the Firefox Profiler get its sums, without threads" {
	needs protoc
	within 120 "$LIMPET" run -q "${patiently[@]}" --compact -o compact.limpet -- "$TARGETS/kinds" >run.say 2>run.err ||
		fail "limpet run: $(<run.err)" || return 1
	trace=compact.limpet
	"$LIMPET" report "$trace" --json >report.json
	perfetto_says
	export_to firefox out.json
	json_says --slurpfile sums sums.json --slurpfile firefox out.json '.totals as $t | $sums[0] |
		.self_allocated == $t.allocated_bytes and .self_freed == $t.freed_bytes and .live_of.kinds_small == 640000 and
		($firefox[0].threads | length == 1 and .[0].name == "all threads" and
			([.[0].nativeAllocations.weight[] | select(. > 0)] | add) == $t.allocated_bytes and
			([.[0].nativeAllocations.weight[]] | add) == $t.live_bytes)' <report.json || fail "$(cut -c -400 sums.json)"
}

# bats test_tags=release
@test "marks are events for Perfetto, and markers in the Firefox Profiler" {
	needs protoc
	needs_firefox
	start storm "$TARGETS/storm" --threads 2
	attach "$pid"
	within 60 "$LIMPET" mark "$pid" "after load" >mark.say
	tell storm "run 10000" ran
	within 60 "$LIMPET" mark "$pid" "steady \"state\"" >mark.say
	stop "$pid"
	finish storm
	"$LIMPET" report "$trace" --json >report.json
	perfetto_says
	same "marks" "$(jq -c .counters.marks sums.json)" '["after load","steady \\\"state\\\""]'
	firefox_says '.marks == [$r[0].marks[].name] and (.marks | length == 2)'
}

@test "hostile names harm no format, and a file that cannot be written is said" {
	trace=$traces/lost.trace
	local format
	for format in heaptrack folded massif callgrind perfetto firefox; do
		export_to $format out.$format || return 1
		[[ -s out.$format ]]
	done
	json_says '.shared.stringArray | length > 1' <out.firefox
	refused 2 "missing --format" "$LIMPET" export "$trace"
	[[ ${stderr_lines[1]} == *" folded, "*" or firefox; limpet export --help" ]]
	refused 2 "did you mean 'pprof'" "$LIMPET" export "$trace" --format pproof
	[[ ${stderr_lines[1]} == *" folded, "*" or firefox; limpet export --help" ]]
	refused 2 "several tables" "$LIMPET" export "$trace" --format csv
	failed_bare "cannot write" "$LIMPET" export "$traces/cpp.trace" --format folded -o /nowhere/out
	refused 1 "the whole capture" "$LIMPET" export "$traces/cpp.trace" --format heaptrack --from 10ms
	refused 1 "the whole capture" "$LIMPET" export "$traces/cpp.trace" --format perfetto --from 10ms
	refused 1 "the whole capture" "$LIMPET" export "$traces/cpp.trace" --format firefox --from 10ms
	refused 1 "no samples" "$LIMPET" export "$traces/sampled.trace" --format heaptrack
	# Nothing is left beside, and what was there stays.
	echo old >out.folded
	(trap '' XFSZ; ulimit -f 0; ! "$LIMPET" export "$traces/node.trace" --format folded -o out.folded 2>/dev/null)
	same "old" "$(cat out.folded)" old
	[[ -z $(find . -name 'out.folded.*') ]]
	failed_bare "cannot write" bash -c '"$0" export "$1" --format folded -o - >/dev/full' "$LIMPET" "$traces/node.trace"
}

being_written() {
	compgen -G "$1.??????" >/dev/null
}

stopped_or_over() {
	ended "$writer" || grep -q '^State:[[:space:]]T' "/proc/$writer/status"
}
written_or_over() {
	being_written "$work/part.events.csv" || ended "$writer"
}

# What is cut off leaves neither a part of a file nor what was to become one.
@test "a signal ends an export at once; nothing of its file stays" {
	start storm "$TARGETS/storm" --threads 2
	attach "$pid"
	tell storm "run 400000" ran
	stop "$pid"
	finish storm
	local name writer
	for name in INT TERM HUP; do
		# Until it is caught in the act, and stands still.
		while :; do
			# The shell has its background jobs ignore SIGINT, and nohup is at work where tests run by themselves.
			env --default-signal=INT,TERM,HUP "$LIMPET" export "$trace" --format csv -o part.csv 2>part.err 3>&- &
			writer=$!
			limpet_jobs+=("$writer")
			wait_until 30 written_or_over
			kill -STOP "$writer" 2>/dev/null || true
			wait_until 30 stopped_or_over
			! being_written "$work/part.events.csv" || compgen -G "part.*.csv" >/dev/null || break
			kill -CONT "$writer" 2>/dev/null || true
			exit_status_of "$writer" 30
			rm -f part.*csv
		done
		kill -s "$name" "$writer"
		kill -CONT "$writer"
		exit_status_of "$writer" 30
		same "SIG$name" "$status" $((128 + $(kill -l "$name")))
		[[ -z $(compgen -G "$work/part.*csv*") ]] || fail "$(ls "$work")"
	done
}

# ------------------------------------------------------------------ many machines

# labelled: a capture of test/targets/kinds, with labels.
labelled() {
	within 120 "$LIMPET" run -q "${patiently[@]}" -o labelled.limpet --label host=a --label 'note=x, "y"; ä' -- "$TARGETS/kinds" \
		>run.say 2>run.err || fail "limpet run: $(<run.err)" || return 1
	trace=labelled.limpet
	"$LIMPET" report "$trace" --json >report.json
}

@test "labels: in the report, its JSON and Markdown, in both tables of fleet, and at each sample of pprof" {
	labelled
	json_says '.capture.labels == {"host": "a", "note": "x, \"y\"; ä"}' <report.json
	"$LIMPET" report "$trace" | grep -qxF 'labels    host=a, note=x, "y"; ä'
	"$LIMPET" report "$trace" --format markdown | grep -qxF 'labels    host=a, note=x, "y"; ä'
	"$root/scripts/limpet-trace-read" "$trace" | json_says '.target.labels.host == "a"'
	export_to fleet out.csv
	python3 - <<-'EOF' >sums.json 2>python.err || fail "$(<python.err)"
		import csv, json
		sites, points = ([dict(row) for row in csv.DictReader(open(f"out.{table}.csv", newline=""))] for table in ("sites", "points"))
		names = ["capture", "started", "program", "host", "labels"]
		json.dump({"columns": [list(sites[0]), list(points[0])],
		           "heads": sorted({tuple(row[name] for name in names[2:]) for row in sites + points}),
		           "captures": len({row["capture"] for row in sites + points}),
		           "keys": len({row["site"] for row in sites}), "rows": len(sites),
		           "first": next(row for row in sites if row["function"] == "kinds_churn"),
		           "last": points[-1],
		           "sums": {name: sum(int(row[name]) for row in sites) for name in
		                    ("allocations", "allocated_bytes", "frees", "freed_bytes", "live_allocations", "live_bytes", "peak_bytes")}},
		          open("sums.json", "w"))
	EOF
	json_says --slurpfile sums sums.json '.totals as $t | .modules as $m | $sums[0] | .captures == 1 and .keys == .rows and
		(.heads | length == 1 and .[0][0] == "kinds" and (.[0][2] | fromjson) == {"host": "a", "note": "x, \"y\"; ä"}) and
		all(.sums | to_entries[]; .value == $t[.key]) and (.last.live_bytes | tonumber) == $t.live_bytes and
		.first.stack == "main;kinds_churn" and (.first.file | endswith("kinds.c")) and .first.complete == "1" and
		any($m[].build_id; . == $sums[0].first.build_id)' <report.json || fail "$(<sums.json)"
	# The manual has the columns.
	same "columns" "$(jq -r '.columns | (.[0] + .[1]) | unique[]' sums.json | sort)" "$(sed -n '/^both: /,/^\.Ed/p' "$root/man/limpet-export.1" |
		sed 's/^[a-z]*://; /^\./d' | xargs -n 1 | sort -u)"
	command -v go >/dev/null || return 0
	export_to pprof out.pb.gz
	within 60 go tool pprof -sample_index=inuse_space -tags out.pb.gz 2>pprof.err | tr -d ' ' >tags || fail "$(<pprof.err)"
	grep -qF 'host:' tags && grep -qF ':a' tags && grep -qF ':x,"y";ä' tags || fail "$(<tags)"
}

@test "fleet: the key of a site outlives a build; a window is refused" {
	local release
	for release in 1 2; do
		# Another line, and another offset.
		{
			printf '#include <stdlib.h>\n%s\n' "$([[ $release == 1 ]] || printf 'int more(int a) { return a * 3; }\n\n\n')"
			printf '__attribute__((noinline)) void *keep(void) { void *p = malloc(100); __asm__("" : : "r"(p) : "memory"); return p; }\n'
			printf 'int main(void) { for (int i = 0; i < %d; i++) keep(); return 0; }\n' $((100 * release))
		} >relay.c
		gcc -O1 -g -Wl,--build-id -o relay relay.c
		within 60 "$LIMPET" run -q -o $release.limpet --label release=$release -- ./relay >run.say 2>run.err || fail "$(<run.err)"
		trace=$release.limpet export_to fleet $release.csv
		grep ',"keep",' $release.sites.csv >$release.row
	done
	same "key" "$(cut -d , -f 1-9 1.row | cut -d , -f 9)" "$(cut -d , -f 1-9 2.row | cut -d , -f 9)"
	same "kept" "$(rev 1.row | cut -d , -f 3 | rev) $(rev 2.row | cut -d , -f 3 | rev)" "100 200"
	[[ $(grep -oE ',[0-9a-f]{40},' 1.row) != "$(grep -oE ',[0-9a-f]{40},' 2.row)" ]]
	refused 1 "fleet always contains the whole capture" "$LIMPET" export 1.limpet --format fleet -o x.csv --to 1ms
}

# As docs/fleet.md says, with its query.
# bats test_tags=release
@test "fleet: DuckDB finds what grew between two releases, and on which hosts" {
	local release host late relay
	needs node
	within 120 "$root/scripts/fetch-duckdb" >fetch.say 2>&1 || skip "npm cannot bring DuckDB: $(tail -n 1 fetch.say)"
	mkdir 1 2
	for release in 1 2; do
		gcc -O2 -g -DRELEASE=$release -o $release/relay "$root/test/targets/relay.c"
		for host in a b c; do
			late=$([[ $host == b ]] && echo 5 || echo 0)
			$release/relay "$late" 3>&- &
			relay=$!
			within 60 "$LIMPET" attach $relay -q -d 1s -o $host.$release.limpet --label host=$host --label release=$release \
				>attach.say 2>attach.err || fail "$(<attach.err)" || return 1
			kill $relay
			wait $relay || true
			trace=$host.$release.limpet export_to fleet $host.$release.csv || return 1
		done
	done
	sed -n '/^    with growth/,/^    order by/p' "$root/docs/fleet.md" >query.sql
	cat >query.cjs <<-'EOF'
		const { DuckDBInstance } = require(process.argv[2] + '/build/duckdb/node_modules/@duckdb/node-api');
		(async () => {
		  const connection = await (await DuckDBInstance.create(':memory:')).connect();
		  await connection.run("create table sites as select * from '*.sites.csv'");
		  await connection.run("create table points as select * from '*.points.csv'");
		  const reader = await connection.runAndReadAll(require('fs').readFileSync('query.sql', 'utf8'));
		  console.log(reader.getRows().map((row) => row.slice(0, 2).join(' ')).join('\n'));
		})();
	EOF
	within 100 node query.cjs "$root" >answer
	same "what grew" "$(<answer)" "keep_late b"
}

# Pyroscope's and Parca's way: a body of gzip.
@test "pprof: curl posts it to a server" {
	needs curl
	labelled
	mkfifo port
	python3 - >post.say 2>post.err 3>&- <<-'EOF' &
		import gzip, http.server
		class Receiver(http.server.BaseHTTPRequestHandler):
		    def do_POST(self):
		        body = self.rfile.read(int(self.headers["Content-Length"]))
		        print(self.path, *sorted(name.decode() for name in (b"inuse_space", b"kinds_small", b"host") if name in gzip.decompress(body)),
		              flush=True)
		        self.send_response(200)
		        self.end_headers()
		    def log_message(self, *_):
		        pass
		server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
		with open("port", "w") as file:
		    file.write(f"{server.server_port}\n")
		server.timeout = 60
		server.handle_request()
	EOF
	receiver=$!
	read -r number <port
	export_to pprof out.pb.gz
	curl -fsS --max-time 60 --data-binary @out.pb.gz "http://127.0.0.1:$number/ingest?name=kinds%7Bhost%3Da%7D&format=pprof" >curl.say
	wait $receiver
	same "received" "$(<post.say)" "/ingest?name=kinds%7Bhost%3Da%7D&format=pprof host inuse_space kinds_small"
}
