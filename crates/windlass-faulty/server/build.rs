//! Switches the fault points on, for this package and the one around it alone.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(windlass_faults)");
    println!("cargo::rustc-cfg=windlass_faults");
}
