//! What a schedule may use on a target.

#[derive(Debug, PartialEq)]
pub struct Target {
    pub name: &'static str,
    /// Shared memory that one block can ask for, bytes.
    pub shared_limit: u32,
    /// Shared memory that the compiler's own choices stay within where they can: the least of the devices that run this code.
    pub shared_preferred: u32,
    pub max_threads: u32,
    /// How operands reach the tensor cores.
    pub pipeline: Pipeline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// Every thread copies (`cp.async`) and multiplies (`mma.sync`).
    CommitGroups,
    /// A producer warpgroup copies, consumer warpgroups multiply (`wgmma`), barriers in shared memory pass tiles between them.
    WarpRoles,
}

/// Ampere's instructions, which Ada, Hopper and Blackwell run as well.
pub static SM_80: Target = Target {
    name: "sm_80",
    shared_limit: 163 * 1024,
    shared_preferred: 99 * 1024,
    max_threads: 1024,
    pipeline: Pipeline::CommitGroups,
};

/// Hopper's own instructions.
pub static SM_90A: Target = Target {
    name: "sm_90a",
    shared_limit: 227 * 1024,
    shared_preferred: 227 * 1024,
    max_threads: 1024,
    pipeline: Pipeline::WarpRoles,
};

/// The targets that lowering knows.
pub static TARGETS: [&Target; 2] = [&SM_80, &SM_90A];

/// Whether `wgmma.cuh` has a warpgroup's product of so many columns. The hardware has all multiples of 8: of the odd ones, these are as
/// wide as portfolios try, since each takes every kernel's compilation time.
pub fn has_product_of(columns: u32) -> bool {
    columns.is_multiple_of(16) && (16..=256).contains(&columns)
        || columns.is_multiple_of(8) && (72..=152).contains(&columns)
}

/// Shared memory that a block can ask for on some device.
pub fn most_shared() -> u32 {
    TARGETS.iter().map(|target| target.shared_limit).max().unwrap_or(0)
}

/// By the name that a schedule attribute uses.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use super::has_product_of;

    /// `wgmma.cuh` of the runtime says for how many columns it has instructions.
    #[test]
    fn products_have_as_many_columns_as_there_are_instructions_for() {
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../tracea-runtime/device/wgmma.cuh");
        let text = std::fs::read_to_string(header).expect("the runtime's headers beside this crate");
        for columns in (1..=300).filter(|columns| has_product_of(*columns)) {
            assert!(text.contains(&format!("TRACEA_WGMMA({columns}, ")), "{columns}");
        }
        assert!(has_product_of(104) && !has_product_of(168) && !has_product_of(272));
    }
}
