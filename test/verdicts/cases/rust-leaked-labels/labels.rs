// Counts queries by label. Labels are interned by leaking them, and each query brings new ones.
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
}

static ENDED: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_number: i32) {
    ENDED.store(true, Ordering::Relaxed);
}

struct Interner {
    count: usize,
    bytes: usize,
}

impl Interner {
    #[inline(never)]
    fn intern(&mut self, label: String) -> &'static str {
        self.count += 1;
        self.bytes += label.len();
        Box::leak(label.into_boxed_str())
    }
}

#[inline(never)]
fn parse_query(number: u64) -> Vec<String> {
    (0..4)
        .map(|field| format!("query-{}/field-{}/{}", number, field, "x".repeat(60)))
        .collect()
}

#[inline(never)]
fn count_query(interner: &mut Interner, counts: &mut HashMap<usize, u64>, number: u64) {
    for field in parse_query(number) {
        let label = interner.intern(field);
        *counts.entry(label.len()).or_insert(0) += 1;
    }
}

fn main() {
    unsafe { signal(15, end) };
    let mut interner = Interner { count: 0, bytes: 0 };
    let mut counts = HashMap::new();
    let start = Instant::now();
    let mut number = 0u64;
    while !ENDED.load(Ordering::Relaxed) {
        count_query(&mut interner, &mut counts, number);
        number += 1;
        if number == 1000 {
            println!("ready");
        }
        let next = start + Duration::from_micros(number * 1000);
        let now = Instant::now();
        if next > now {
            std::thread::sleep(next - now);
        }
    }
    eprintln!("{} labels of {} bytes leaked", interner.count, interner.bytes);
}
