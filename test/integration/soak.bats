#!/usr/bin/env bats
# The arithmetic of scripts/soak-summary, on a soak made up so that the right answers are known.
# time-limit: 120

# bats file_tags=release
load helpers
setup() { begin; }
teardown() { end; }

# soak HURT: ten periods of 20 s, with a window of ten seconds in the middle of each. In both nodes
# requests take 1..20 ms in turn, and 7 ms more in even periods. In the windows the tracked one takes HURT
# ms more, and as much more memory in MiB.
soak() {
	python3 - "$1" <<-'END'
		import json, sys
		hurt = int(sys.argv[1])
		rows = [{"kind": "start", "time": 1000.0, "genesis": 990, "rate": 10, "period": 20, "window": 10,
		         "latency_unit_us": 10, "paths": []}]
		inside = lambda t: 5 <= t % 20 < 14.97
		shift = lambda t: 7 if t % 40 < 20 else 0
		for i in range(10):
		    rows.append({"kind": "window", "number": i, "from": i * 20 + 5.0, "to": i * 20 + 14.97, "status": 0,
		                 "complete": True, "agent_unloaded": True, "residue": [], "events": 100,
		                 "dropped_events": 0, "truncated_stacks": 0, "attach_stop_microseconds": 100 + i,
		                 "detach_stop_microseconds": 1000 + i})
		for index, node in enumerate(("tracked", "twin")):
		    for t in range(1, 201):
		        more = hurt if index == 0 and inside(t) else 0
		        rows.append({"kind": "sample", "node": node, "t": t, "cpu_ms": 400 * t, "threads": 14,
		                     "rss_kib": (200 + index + more) * 1024, "main_run_ms": 300 * t,
		                     "main_queued_ms": 10 * t, "distance": 0, "head": t // 2, "loop_mean": 0.011,
		                     "loop_p99": 0.02, "loop_max": 0.05, "attester_miss": 512, "attester_hit": 256 * t,
		                     "head_miss": 0, "target_miss": 0})
		    for slot in range(1, 110):
		        rows.append({"kind": "duties", "node": node, "slot": slot, "block": 1, "block_ms": 50,
		                     "attestations": 64, "attestations_ms": 300, "sync": 32, "aggregates": 64,
		                     "contributions": 32})
		    with open(f"requests-{node}.jsonl", "w") as file:
		        latencies = []
		        for i in range(2000):
		            t = i / 10 + index / 20
		            more = hurt if index == 0 and inside(t) else 0
		            latencies.append(100 * (i % 20 + 1 + more + shift(t)))
		        for first in range(0, 2000, 100):
		            row = {"first": first, "latencies": latencies[first:first + 100]}
		            file.write(json.dumps(row) + "\n")
		rows += [{"kind": "load", "t": 200.0, "average": 1.0},
		         {"kind": "end", "t": 201.0, "by": "duration", "broken": []}]
		with open("samples.jsonl", "w") as file:
		    file.writelines(json.dumps(row) + "\n" for row in rows)
	END
}

summary() {
	within 60 "$root/scripts/soak-summary" . - >summary || fail "soak-summary ended with $?"
}

# holds FILTER: of the summary.
holds() {
	jq -e "$1" summary >/dev/null || fail "not so: $1: $(jq -c '[.nodes, .windows, .figures]' summary)"
}

figure() {
	holds ".figures[] | select(.figure == \"$1\") | $2"
}

@test "two nodes alike differ in nothing, and what both share cancels out" {
	soak 0
	summary
	holds '[.figures[] | select(.beyond_noise)] == []'
	# In windows and outside, half of the periods 1..20 ms and half of them 8..27.
	figure "request latency p99.9" '[.tracked_inside, .twin_inside, .tracked_outside, .twin_outside, .effect] == [27, 27, 27, 27, 0]'
	figure "request latency p50" '.periods == 10 and .p == 1'
	figure "CPU time" '.tracked_inside == 40 and .twin_inside == 40'
	figure "RSS, mean" '.tracked_inside == 200 and .twin_inside == 201 and .effect == 0'
	holds '.nodes.tracked.requests == {inside: 1000, outside: 1000}'
	holds '.nodes | [.tracked, .twin | .failed_requests, .missed_duties.inside, .missed_duties.outside] |
		map(add) == [0, 0, 0, 0, 0, 0]'
	holds '.windows | .count == 10 and .without_residue == 10 and .events == 1000'
	holds '.windows.detach_stop_us == {p50: 1004, p99: 1009, max: 1009}'
}

@test "what limpet does to the node is found, and nothing else" {
	soak 5
	summary
	figure "request latency p50" '.effect == 5 and .p < 0.01 and .beyond_noise'
	figure "request latency p99.9" '.effect == 5 and .beyond_noise'
	figure "RSS, mean" '.effect == 5 and .beyond_noise'
	figure "event-loop delay, mean" '.effect == 0 and (.beyond_noise | not)'
	figure "CPU time" '.effect == 0 and (.beyond_noise | not)'
}

@test "a missed duty, a failed request and a bad window are counted where they belong" {
	soak 0
	# Slot 10 of the twin starts after 11 s, in the window; slot 16 of the tracked one after 22 s.
	jq -c 'select((.kind == "duties" and .node == "twin" and .slot == 10) | not) |
		if .kind == "duties" and .node == "tracked" and .slot == 16 then .attestations = 61 else . end |
		if .kind == "window" and .number == 3 then
			.status = 4 | .complete = false | .dropped_events = 17 | .residue = ["a tracer"]
		else . end' samples.jsonl >changed
	mv changed samples.jsonl
	jq -c 'if .first == 100 then .latencies[7] = -1 else . end' requests-tracked.jsonl >changed
	mv changed requests-tracked.jsonl
	summary
	holds '.nodes.twin.missed_duties.inside ==
		{block: 1, attestations: 64, sync: 32, aggregates: 64, contributions: 32}'
	holds '.nodes.twin.missed_duties.outside | add == 0'
	holds '.nodes.tracked.missed_duties | .outside.attestations == 3 and (.outside | add) == 3 and (.inside | add) == 0'
	holds '.nodes.tracked.failed_requests == {inside: 1, outside: 0}'
	holds '.nodes.twin.failed_requests == {inside: 0, outside: 0}'
	holds '.windows | .status_0 == 9 and .complete == 9 and .without_residue == 9 and .dropped_events == 17'
}

@test "a run that goes on is not charged with duties that nobody has written down yet" {
	soak 0
	jq -c 'select(.kind != "end" and (.kind != "duties" or .slot < 80))' samples.jsonl >changed
	mv changed samples.jsonl
	summary
	holds '.broken == ["the run has no end"]'
	holds '.nodes | [.tracked, .twin | .missed_duties.inside, .missed_duties.outside] | map(add) == [0, 0, 0, 0]'
}

@test "compressed samples say the same, and the tables are written" {
	soak 5
	summary
	mv summary plain
	xz samples.jsonl requests-*.jsonl
	summary
	cmp plain summary
	within 60 "$root/scripts/soak-summary" .
	grep -qE '^\| request latency p50 \(ms\) \|.*\| 5\.00 \| 0\.00[0-9]+ \| yes \|$' summary.md ||
		fail "$(grep p50 summary.md)"
	jq -e '.windows.count == 10' summary.json >/dev/null
}

@test "a node's log is read as it is written" {
	sed $'s/ESC/\e/g' >log <<-'END'
		Eph 10/3 0.041[]                ESC[32minfoESC[39m: Published block slot=83, validator=0x8374, graffiti=x
		Eph 10/3 0.250[]                ESC[32minfoESC[39m: Published attestations slot=83, count=64
		Eph 10/3 1.590[]                ESC[32minfoESC[39m: Published aggregateAndProofs slot=83, index=1, count=16
		Eph 10/3 1.600[]                ESC[32minfoESC[39m: Published aggregateAndProofs slot=83, index=0, count=16
		Eph 10/4 0.500[]                ESC[31merrorESC[39m: Error publishing attestations slot=84 Timeout request
		Error: Timeout request
		Eph 10/5 0.125[]                ESC[32minfoESC[39m: Published attestations slot=84, cou
	END
	truncate -s -1 log
	python3 - "$root/scripts/soak" <<-'END'
		import importlib.machinery, importlib.util, sys
		loader = importlib.machinery.SourceFileLoader("soak", sys.argv[1])
		soak = importlib.util.module_from_spec(importlib.util.spec_from_file_location("soak", loader=loader))
		loader.exec_module(soak)
		rows = []
		class Writer:
		    def write(self, **row): rows.append(row)
		log = soak.Log("twin", "log", Writer())
		log.read(1.5)
		assert rows == [{"kind": "log", "node": "twin", "t": 1.5, "level": "error", "slot": 84,
		                 "text": "Error publishing attestations slot=84 Timeout request"}], rows
		with open("log", "a") as file:
		    file.write("nt=64\n")
		log.read(2.5, True)
		assert rows[1:] == [
		    {"kind": "duties", "node": "twin", "slot": 83, "block": 1, "block_ms": 41, "attestations": 64,
		     "attestations_ms": 250, "aggregates": 32, "aggregates_ms": 1600},
		    {"kind": "duties", "node": "twin", "slot": 84, "attestations": 64, "attestations_ms": 2125}], rows
	END
}
