// What the programs of known truth in Rust share: see planted.h.
use std::io::Write;

/// std::hint::black_box(), which came with Rust 1.66.
pub fn black_box<T>(value: T) -> T {
    let copy = unsafe { std::ptr::read_volatile(&value) };
    std::mem::forget(value);
    copy
}

#[inline(never)]
fn wipe() {
    let mut room = [0u8; 48 << 10];
    black_box(&mut room);
    // Copies of structures go through these.
    unsafe {
        std::arch::asm!(
            "pxor xmm0, xmm0; pxor xmm1, xmm1; pxor xmm2, xmm2; pxor xmm3, xmm3",
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
        );
    }
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
