## A beacon client, built with malloc for an allocator. Blocks of forks that lost are never pruned.
import std/[tables, os, times, sequtils]

type
  Block = ref object
    slot: int
    parent: Block
    state: seq[uint64]

  Chain = object
    head: Block
    forks: Table[int, seq[Block]]

proc newBlock(slot: int, parent: Block, size: int): Block {.noinline.} =
  Block(slot: slot, parent: parent, state: newSeqWith(size, uint64(slot)))

proc onFork(chain: var Chain, slot: int) {.noinline.} =
  for i in 0 ..< 3:
    chain.forks.mgetOrPut(slot, @[]).add(newBlock(slot, nil, 160))

proc onBlock(chain: var Chain, slot: int) {.noinline.} =
  chain.head = newBlock(slot, nil, 2000)

proc main() =
  var chain = Chain()
  echo "ready"
  flushFile(stdout)
  var next = epochTime()
  var slot = 0
  while true:
    chain.onBlock(slot)
    chain.onFork(slot)
    inc slot
    if slot mod 100 == 0:
      stderr.writeLine($chain.forks.len & " slots with forks, head " & $chain.head.slot)
    next += 0.02
    let rest = next - epochTime()
    if rest > 0:
      sleep(int(rest * 1000))

main()
