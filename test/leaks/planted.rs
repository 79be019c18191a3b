// What the programs of known truth in Rust share: see planted.h.
use std::hint::black_box;
use std::io::Write;

#[inline(never)]
fn wipe() {
    let mut room = [0u8; 48 << 10];
    black_box(&mut room);
}

/// Leaves no copy of a pointer on the stack below.
#[inline(never)]
pub fn wiped(step: fn()) {
    step();
    wipe();
    wipe();
}

extern "C" {
    fn pause() -> i32;
}

/// "READY PID", then for ever in pause(2).
pub fn rest() -> ! {
    let mut out = std::io::stdout();
    writeln!(out, "READY {}", std::process::id()).unwrap();
    out.flush().unwrap();
    loop {
        unsafe { pause() };
    }
}
