//! churn: Rust collections, checked, beside blocks that are kept for good in a known function.
//!
//! Commands: "go" and "hold" start and stop the churn threads; "leak N" makes keep_forever keep N
//! blocks; "count" answers what was kept, as JSON; "quit" ends with 0 if every sum was right.
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

const BLOCK_BYTES: usize = 5000;

struct State {
    running: AtomicBool,
    over: AtomicBool,
    rounds: AtomicU64,
}

#[inline(never)]
fn keep_forever(number: usize) -> &'static [u8] {
    Box::leak(vec![number as u8 | 1; BLOCK_BYTES].into_boxed_slice())
}

#[inline(never)]
fn churn_round(seed: u64) -> u64 {
    let mut words: HashMap<String, Vec<u64>> = HashMap::new();
    for i in 0..200u64 {
        words.entry(format!("key number {}", (i * 7919 + seed) % 97)).or_default().push(i);
    }
    let joined: String = words.keys().cloned().collect::<Vec<_>>().join(",");
    assert!(joined.len() > words.len() * 10);
    words.values().flatten().sum()
}

fn churn(state: &State, mut seed: u64) {
    while !state.over.load(Ordering::Relaxed) {
        if !state.running.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        }
        if churn_round(seed) != 200 * 199 / 2 {
            eprintln!("broken: a map lost a word");
            std::process::exit(70);
        }
        // A panic that is caught unwinds through frames whose allocations are hooked.
        if seed % 64 == 0 {
            let caught = std::panic::catch_unwind(|| {
                let held = vec![1u8; 300];
                if held.len() == 300 {
                    std::panic::resume_unwind(Box::new(held.len()));
                }
            });
            match caught.map_err(|words| words.downcast::<usize>().map(|n| *n)) {
                Err(Ok(300)) => {}
                _ => {
                    eprintln!("broken: a panic lost its words");
                    std::process::exit(70);
                }
            }
        }
        state.rounds.fetch_add(1, Ordering::Relaxed);
        seed += 1;
    }
}

fn main() {
    let state = Arc::new(State {
        running: AtomicBool::new(false),
        over: AtomicBool::new(false),
        rounds: AtomicU64::new(0),
    });
    let threads: Vec<_> = (0..2)
        .map(|i| {
            let state = state.clone();
            std::thread::spawn(move || churn(&state, i * 1_000_003))
        })
        .collect();
    let mut kept: Vec<&'static [u8]> = Vec::new();
    let say = |words: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{words}").and_then(|_| out.flush()).expect("stdout");
    };
    say(format!("ready {}", std::process::id()));
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("stdin");
        let mut words = line.split(' ');
        match (words.next(), words.next().and_then(|n| n.parse::<usize>().ok())) {
            (Some("go"), _) => {
                state.running.store(true, Ordering::Relaxed);
                say("going".into());
            }
            (Some("hold"), _) => {
                state.running.store(false, Ordering::Relaxed);
                say("held".into());
            }
            (Some("leak"), Some(n)) => {
                for i in 0..n {
                    kept.push(keep_forever(i));
                }
                say("leaked".into());
            }
            (Some("count"), _) => say(format!(
                "{{\"kept\":{},\"block_bytes\":{},\"rounds\":{}}}",
                kept.len(),
                BLOCK_BYTES,
                state.rounds.load(Ordering::Relaxed)
            )),
            (Some("quit"), _) => break,
            _ => {
                eprintln!("broken: unknown command '{line}'");
                std::process::exit(70);
            }
        }
    }
    state.over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("a thread panicked");
    }
    if kept.iter().enumerate().any(|(_, block)| block.iter().any(|byte| byte & 1 == 0)) {
        eprintln!("broken: a kept block changed");
        std::process::exit(70);
    }
}
