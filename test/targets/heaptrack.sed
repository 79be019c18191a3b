# lib/system/alloc.nim of Nim, as programs with heaptrack support have it: each block is told to heaptrack's
# library, which has to be on the path of libraries.
/^proc rawAlloc(/i\
when defined(heaptracker):\
  const heaptrackLibrary =\
    when defined(heaptracker_inject): "libheaptrack_inject.so"\
    else: "libheaptrack_preload.so"\
  proc heaptrack_malloc(p: pointer, bytes: csize_t) {.cdecl, importc, dynlib: heaptrackLibrary.}\
  proc heaptrack_free(p: pointer) {.cdecl, importc, dynlib: heaptrackLibrary.}\

/logAlloc: cprintf("var pointer_/i\
  when defined(heaptracker):\
    heaptrack_malloc(result, csize_t(requestedSize))
/^proc rawDealloc(/a\
  when defined(heaptracker):\
    heaptrack_free(p)
