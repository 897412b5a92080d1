//! The program `landau`.
fn main() {}
