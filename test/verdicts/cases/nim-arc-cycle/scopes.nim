## Resolves names in nested scopes. Under ARC, scopes that point at one another are never freed.
import std/[tables, strformat, monotimes, times, os]

type
  Scope = ref object
    parent: Scope
    children: seq[Scope]
    names: Table[string, int]

var
  made = 0
  ended {.volatile.} = false

proc onTerm(number: cint) {.noconv.} = ended = true
proc signal(number: cint, handler: proc (number: cint) {.noconv.}) {.importc, header: "<signal.h>".}

proc openScope(parent: Scope, depth: int): Scope {.noinline.} =
  result = Scope(parent: parent)
  for i in 0 ..< 6:
    result.names[&"name {i} at depth {depth}"] = i
  made += 1

proc resolveUnit(number: int): int {.noinline.} =
  let global = openScope(nil, 0)
  for i in 0 ..< 3:
    let inner = openScope(global, 1)
    global.children.add(inner)
    result += inner.names.len + number
  var temporary = newSeq[int](500)
  result += temporary.len

signal(15, onTerm)
var
  number = 0
  sum = 0
let start = getMonoTime()
while not ended:
  sum += resolveUnit(number)
  number += 1
  if number == 200:
    echo "ready"
    flushFile(stdout)
  let wait = (start + initDuration(microseconds = number * 5000) - getMonoTime()).inMicroseconds
  if wait > 1000:
    sleep(int(wait div 1000))
stderr.writeLine(&"{made} scopes made, none freed ({sum})")
