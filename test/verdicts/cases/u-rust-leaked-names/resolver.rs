//! A resolver that turns each host's name into a &'static str, so that it need not care about lifetimes.
use std::time::{Duration, Instant};

struct Answer {
    host: &'static str,
    address: [u8; 4],
}

struct Resolver {
    recent: Vec<Answer>,
    resolved: u64,
    bytes: usize,
}

fn pace(next: &mut Instant, ms: u64) {
    *next += Duration::from_millis(ms);
    let now = Instant::now();
    if *next > now {
        std::thread::sleep(*next - now);
    }
}

#[inline(never)]
fn intern_host(name: String) -> &'static str {
    Box::leak(name.into_boxed_str())
}

#[inline(never)]
fn encode_query(name: &str) -> Vec<u8> {
    name.split('.').flat_map(|label| std::iter::once(label.len() as u8).chain(label.bytes())).collect()
}

impl Resolver {
    #[inline(never)]
    fn resolve(&mut self, id: u64) {
        let name = format!("host-{}.{:0>190}.example.org", id, id % 1000);
        let query = encode_query(&name);
        let sum = query.iter().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte as u32));

        self.bytes += name.len();
        let answer = Answer { host: intern_host(name), address: sum.to_be_bytes() };
        if self.recent.len() == 500 {
            self.recent.remove(0);
        }
        self.recent.push(answer);
        self.resolved += 1;
    }
}

fn main() {
    let mut resolver = Resolver { recent: Vec::new(), resolved: 0, bytes: 0 };
    let mut next = Instant::now();

    println!("ready");
    for tick in 0u64.. {
        for i in 0..8 {
            resolver.resolve(tick * 8 + i);
        }
        if tick % 100 == 0 {
            let last = resolver.recent.last().unwrap();
            eprintln!("{} resolved, {} bytes leaked ({} {:?})", resolver.resolved, resolver.bytes, last.host.len(), last.address);
        }
        pace(&mut next, 20);
    }
}
