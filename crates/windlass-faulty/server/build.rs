//! Compiles the fault points in, for this package and the one around it only.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(windlass_faults)");
    println!("cargo::rustc-cfg=windlass_faults");
}
