//! rjem, rmi: a Rust program whose allocator is called by the names that its crate gives it, and that
//! keeps books of every call: jemalloc, or with --cfg mimalloc that one.
//!
//! Commands: "go" and "hold" start and stop the churn threads; "leak N" makes keep_forever keep N
//! blocks; "quit" answers all calls of the allocator since the start, as JSON, and ends at once.
// Older compilers do not know the second.
#![allow(unknown_lints, unexpected_cfgs)]

use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

#[cfg(not(mimalloc))]
extern "C" {
    fn _rjem_malloc(size: usize) -> *mut c_void;
    fn _rjem_calloc(count: usize, size: usize) -> *mut c_void;
    fn _rjem_mallocx(size: usize, flags: c_int) -> *mut c_void;
    fn _rjem_rallocx(block: *mut c_void, size: usize, flags: c_int) -> *mut c_void;
    fn _rjem_sdallocx(block: *mut c_void, size: usize, flags: c_int);
}

#[cfg(mimalloc)]
extern "C" {
    fn mi_malloc_aligned(size: usize, align: usize) -> *mut c_void;
    fn mi_zalloc_aligned(size: usize, align: usize) -> *mut c_void;
    fn mi_realloc_aligned(block: *mut c_void, size: usize, align: usize) -> *mut c_void;
    fn mi_free(block: *mut c_void);
}

extern "C" {
    fn write(fd: c_int, bytes: *const u8, count: usize) -> isize;
    fn _exit(status: c_int) -> !;
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static FREED_BYTES: AtomicU64 = AtomicU64::new(0);

struct Books;

#[cfg(not(mimalloc))]
fn flags(layout: &Layout) -> c_int {
    if layout.align() > 16 { layout.align().trailing_zeros() as c_int } else { 0 }
}

fn allocated(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    ALLOCATED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

fn freed(bytes: usize) {
    FREES.fetch_add(1, Ordering::Relaxed);
    FREED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

#[cfg(not(mimalloc))]
mod real {
    use super::*;
    pub unsafe fn alloc(layout: Layout) -> *mut c_void {
        match flags(&layout) {
            0 => _rjem_malloc(layout.size()),
            flags => _rjem_mallocx(layout.size(), flags),
        }
    }
    pub unsafe fn alloc_zeroed(layout: Layout) -> *mut c_void {
        match flags(&layout) {
            0 => _rjem_calloc(1, layout.size()),
            flags => _rjem_mallocx(layout.size(), flags | 0x40),
        }
    }
    pub unsafe fn dealloc(block: *mut c_void, layout: Layout) {
        _rjem_sdallocx(block, layout.size(), flags(&layout));
    }
    pub unsafe fn realloc(block: *mut c_void, layout: Layout, bytes: usize) -> *mut c_void {
        _rjem_rallocx(block, bytes, flags(&layout))
    }
}

#[cfg(mimalloc)]
mod real {
    use super::*;
    pub unsafe fn alloc(layout: Layout) -> *mut c_void {
        mi_malloc_aligned(layout.size(), layout.align())
    }
    pub unsafe fn alloc_zeroed(layout: Layout) -> *mut c_void {
        mi_zalloc_aligned(layout.size(), layout.align())
    }
    pub unsafe fn dealloc(block: *mut c_void, _: Layout) {
        mi_free(block);
    }
    pub unsafe fn realloc(block: *mut c_void, layout: Layout, bytes: usize) -> *mut c_void {
        mi_realloc_aligned(block, bytes, layout.align())
    }
}

unsafe impl GlobalAlloc for Books {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        real::alloc(layout) as *mut u8
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        real::alloc_zeroed(layout) as *mut u8
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        freed(layout.size());
        real::dealloc(block as *mut c_void, layout);
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        freed(layout.size());
        allocated(bytes);
        real::realloc(block as *mut c_void, layout, bytes) as *mut u8
    }
}

#[global_allocator]
static BOOKS: Books = Books;

static RUNNING: AtomicBool = AtomicBool::new(false);
static OVER: AtomicBool = AtomicBool::new(false);
static RESTING: AtomicUsize = AtomicUsize::new(0);
const THREADS: usize = 3;

const BLOCK_BYTES: usize = 5000;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

#[inline(never)]
fn keep_forever(number: usize) -> &'static [u8] {
    Box::leak(vec![number as u8 | 1; BLOCK_BYTES].into_boxed_slice())
}

/// Until all threads have begun, and are done with what they did.
fn wait_for_rest() {
    while RESTING.load(Ordering::SeqCst) != THREADS {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn churn(mut seed: u64) {
    let mut resting = false;
    while !OVER.load(Ordering::Relaxed) {
        // Whoever rests no more looks again: it may have been told to hold meanwhile.
        let running = RUNNING.load(Ordering::SeqCst);
        if running == resting {
            resting = !running;
            if resting {
                RESTING.fetch_add(1, Ordering::SeqCst);
            } else {
                RESTING.fetch_sub(1, Ordering::SeqCst);
            }
            continue;
        }
        if !running {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        }
        let mut words: HashMap<String, Vec<u64>> = HashMap::new();
        for i in 0..200u64 {
            words.entry(format!("key {}", (i * 7919 + seed) % 97)).or_default().push(i);
        }
        let lines = vec![Line([seed as u8; 64]); 20];
        let sum: u64 = words.values().flatten().sum();
        if sum != 200 * 199 / 2 || lines.iter().any(|line| line.0[63] != seed as u8) {
            eprintln!("broken: a block changed");
            std::process::exit(70);
        }
        seed += 1;
    }
}

fn say(words: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{words}").and_then(|_| out.flush()).expect("stdout");
}

/// Without an allocation after the books are read.
fn end() -> ! {
    let mut line = [0u8; 256];
    let room = line.len();
    let mut rest = &mut line[..];
    let _ = writeln!(
        rest,
        "{{\"allocations\":{},\"allocated_bytes\":{},\"frees\":{},\"freed_bytes\":{}}}",
        ALLOCATIONS.load(Ordering::SeqCst),
        ALLOCATED_BYTES.load(Ordering::SeqCst),
        FREES.load(Ordering::SeqCst),
        FREED_BYTES.load(Ordering::SeqCst)
    );
    let used = room - rest.len();
    unsafe {
        let wrote = write(1, line.as_ptr(), used);
        _exit(if wrote == used as isize { 0 } else { 70 });
    }
}

fn main() {
    let threads: Vec<_> =
        (0..THREADS as u64).map(|i| std::thread::spawn(move || churn(i * 1_000_003))).collect();
    let mut kept: Vec<&'static [u8]> = Vec::new();
    wait_for_rest();
    say(&format!("ready {}", std::process::id()));
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("stdin");
        let mut words = line.split(' ');
        match (words.next(), words.next().and_then(|n| n.parse::<usize>().ok())) {
            (Some("go"), _) => {
                RUNNING.store(true, Ordering::SeqCst);
                say("going");
            }
            (Some("hold"), _) => {
                RUNNING.store(false, Ordering::SeqCst);
                wait_for_rest();
                say("held");
            }
            (Some("leak"), Some(n)) => {
                kept.extend((0..n).map(keep_forever));
                say("leaked");
            }
            (Some("quit"), _) => break,
            _ => {
                eprintln!("broken: unknown command '{line}'");
                std::process::exit(70);
            }
        }
    }
    OVER.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("a thread panicked");
    }
    if kept.iter().any(|block| block.iter().any(|byte| byte & 1 == 0)) {
        eprintln!("broken: a kept block changed");
        std::process::exit(70);
    }
    end();
}
