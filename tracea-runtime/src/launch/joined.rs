//! Tensors of which a variant takes several axes as one.
//!
//! ```text
//! w (64, 7, 7, 3), contiguous ──▶ (64, 147)
//! ```

use super::check::Tensors;
use super::copies::Replaced;
use crate::plan::Variant;
use crate::tensor::{Layout, RawTensor};

/// The tensors as the variant's code sees them; nothing where one of them has gaps.
pub(super) fn joined(variant: &Variant, tensors: &Tensors<'_>) -> Option<Replaced> {
    // As most variants: what is said so is not moved as a whole list.
    if variant.joined.is_empty() {
        return Some(Replaced::none());
    }
    let mut replaced = Replaced::none();
    for joined in variant.joined {
        let raw = tensors.get(joined.tensor)?;
        let start = std::ptr::without_provenance_mut(raw.device_address() as usize);
        let layout = layout(raw.layout(), joined.axes)?;
        replaced.put(joined.tensor, RawTensor::borrowing(raw.dtype(), layout, start, raw.device().clone()));
    }
    Some(replaced)
}

fn layout(layout: &Layout, axes: usize) -> Option<Layout> {
    let outer = layout.rank().checked_sub(axes)?;
    if layout.gapless_axes() < axes {
        return None;
    }
    let (mut sizes, mut strides) = layout.padded();
    sizes[outer] = layout.sizes()[outer..].iter().product();
    strides[outer] = 1;
    Layout::strided(&sizes[..=outer], &strides[..=outer]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[usize], strides: &[usize], axes: usize) -> Option<(Vec<usize>, Vec<usize>)> {
        let joined = layout(&Layout::strided(sizes, strides).unwrap(), axes)?;
        Some((joined.sizes().to_vec(), joined.strides().to_vec()))
    }

    #[test]
    fn axes_without_gaps_become_one() {
        assert_eq!(of(&[64, 7, 7, 3], &[147, 21, 3, 1], 3), Some((vec![64, 147], vec![147, 1])));
        assert_eq!(of(&[64, 7, 7, 3], &[160, 21, 3, 1], 3), Some((vec![64, 147], vec![160, 1])), "a gap before them");
        assert_eq!(of(&[7, 7, 3], &[21, 3, 1], 3), Some((vec![147], vec![1])));
    }

    #[test]
    fn gaps_keep_axes_apart() {
        assert_eq!(of(&[64, 7, 7, 3], &[196, 28, 4, 1], 3), None);
        assert_eq!(of(&[64, 7, 7, 3], &[147, 21, 3, 1], 4), Some((vec![9408], vec![1])));
        assert_eq!(of(&[7, 3], &[3, 1], 3), None, "fewer axes");
    }
}
