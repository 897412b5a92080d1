//! Other kernels: the same benchmarks, from the same binary, under a kernel that is booted for it.
//!
//! A kernel comes from a file, a package or a disk image, is booted by an engine, and leaves a record as a run on the
//! host does.
