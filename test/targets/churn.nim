## churn: Nim collections, checked, with exceptions.
##
## Commands on stdin: "go" and "hold" start and stop the churn threads; "quit" ends with 0 if every sum
## was right.
import std/[atomics, os, strutils, tables]

const words = 200

var
  running, over: Atomic[bool]
  workers: array[2, Thread[int]]

proc broken(what: string) {.noreturn.} =
  stderr.writeLine("broken: " & what)
  quit(70)

proc churnRound(seed: int): int {.noinline.} =
  var table = initTable[string, seq[int]]()
  for i in 0 ..< words:
    table.mgetOrPut("key number " & $((i * 7919 + seed) mod 97), @[]).add(i)
  for numbers in table.values:
    for number in numbers:
      result += number

proc raisedRound(seed: int): int {.noinline.} =
  try:
    var held = repeat('x', 200)
    if seed mod 2 == 0:
      raise newException(ValueError, held)
    result = held.len
  except ValueError as error:
    result = error.msg.len

proc churn(first: int) {.thread.} =
  var seed = first
  while not over.load:
    if not running.load:
      sleep(1)
      continue
    if churnRound(seed) != words * (words - 1) div 2:
      broken("a table lost a word")
    if raisedRound(seed) != 200:
      broken("an exception lost its words")
    inc seed

proc say(what: string) =
  stdout.writeLine(what)
  stdout.flushFile()

for i in 0 ..< workers.len:
  createThread(workers[i], churn, i * 1_000_003)
say("ready " & $getCurrentProcessId())
for line in stdin.lines:
  case line
  of "go":
    running.store(true)
    say("going")
  of "hold":
    running.store(false)
    say("held")
  of "quit":
    break
  else:
    broken("unknown command '" & line & "'")
over.store(true)
joinThreads(workers)
