//! What a schedule may use on a target.

#[derive(Debug, PartialEq)]
pub struct Target {
    pub name: &'static str,
    /// Shared memory that one block can ask for, bytes.
    pub shared_limit: u32,
    /// Shared memory that the compiler's own choices stay within where they can: the least of the devices that run this code.
    pub shared_preferred: u32,
    pub max_threads: u32,
    pub registers: u32,
}

/// Ampere's instructions, which Ada, Hopper and Blackwell run as well.
pub static SM_80: Target = Target {
    name: "sm_80",
    shared_limit: 163 * 1024,
    shared_preferred: 99 * 1024,
    max_threads: 1024,
    registers: 65536,
};

/// The targets that lowering knows.
pub static TARGETS: [&Target; 1] = [&SM_80];

/// Names that a schedule attribute may pin; the second half of the pair says whether code is made for it.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
