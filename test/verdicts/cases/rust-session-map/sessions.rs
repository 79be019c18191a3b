// Sessions in a HashMap. Users log in, and hardly anybody logs out.
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

struct Session {
    user: String,
    history: Vec<u8>,
}

#[derive(Default)]
struct SessionStore {
    sessions: HashMap<u64, Session>,
}

impl SessionStore {
    #[inline(never)]
    fn login(&mut self, id: u64) {
        let session = Session {
            user: format!("user number {} of the service", id),
            history: vec![1; 1500],
        };
        self.sessions.insert(id, session);
    }

    #[inline(never)]
    fn logout(&mut self, id: u64) -> usize {
        self.sessions.remove(&id).map_or(0, |session| session.user.len())
    }

    fn bytes(&self) -> usize {
        self.sessions.values().map(|s| s.user.capacity() + s.history.capacity()).sum()
    }
}

#[inline(never)]
fn render_page(id: u64) -> usize {
    let lines: Vec<String> = (0..20).map(|line| format!("<p>{} of {}</p>", line, id)).collect();
    lines.join("\n").len()
}

fn main() {
    unsafe { signal(15, end) };
    let mut store = SessionStore::default();
    let start = Instant::now();
    let mut number = 0u64;
    let mut sum = 0;
    while !ENDED.load(Ordering::Relaxed) {
        store.login(number);
        sum += render_page(number);
        if number % 5 == 0 {
            sum += store.logout(number);
        }
        number += 1;
        if number == 500 {
            println!("ready");
        }
        let next = start + Duration::from_micros(number * 2500);
        let now = Instant::now();
        if next > now {
            std::thread::sleep(next - now);
        }
    }
    eprintln!("{} sessions, {} bytes ({})", store.sessions.len(), store.bytes(), sum);
}
