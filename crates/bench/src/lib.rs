//! The benchmarks of Landau, one file each in [`list`].
//!
//! A benchmark describes an experiment; the engine plans, drives and records it. `cargo xtask registry` generates the
//! list from the directory, and CI checks it.

mod affinity;
pub mod architecture;
mod backend;
mod extents;
mod files;
pub mod idle_poll;
pub mod list;
pub mod placement;
mod pool;
mod program;
mod receiver;
mod server;
mod volume;

pub use list::REGISTRY;
pub use server::rival;

#[cfg(test)]
mod tests {
    use super::REGISTRY;

    /// Guards against a value of a study that the parameter would reject if a user typed it: such a value reads as 0.
    #[test]
    fn every_study_has_values_that_its_parameters_accept() {
        for entry in REGISTRY {
            for parameter in entry.parameters {
                for value in [parameter.smoke, parameter.quick, parameter.full] {
                    assert_eq!(parameter.reject(value), None, "{}.{} = {value}", entry.name, parameter.name);
                }
            }
            for (name, value) in entry.variants.iter().flat_map(|variant| variant.settings) {
                let parameter = entry.parameters.iter().find(|parameter| parameter.name == *name);
                let rejection = parameter.map(|parameter| parameter.reject(value));
                assert_eq!(rejection, Some(None), "{}.{name} = {value}", entry.name);
            }
        }
    }
}
