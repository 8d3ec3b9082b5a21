//! Masks: elements replaced by where they lie.

use super::Tile;
use super::create::Fill;
use super::form::MAX_RANK;
use super::raw::Raw;
use crate::element::Value;

/// Replaces the elements whose coordinates `keep` rejects.
fn mask<T: Value>(tile: Raw<T>, value: T, keep: impl Fn([i32; MAX_RANK]) -> bool) -> Raw<T> {
    let (form, mut values) = tile.into_values();
    let last = form.rank.saturating_sub(1);
    let (row_len, rows_outer) = (form.sizes[last].max(1), if last == 2 { form.sizes[1].max(1) } else { 1 });
    for (row, elements) in values.chunks_exact_mut(row_len).enumerate() {
        let mut at = form.origins;
        let positions = [row / rows_outer, row % rows_outer];
        for (at, position) in at[..last].iter_mut().zip(positions) {
            *at = at.wrapping_add(position as i32);
        }
        for (position, x) in elements.iter_mut().enumerate() {
            let mut at = at;
            at[last] = at[last].wrapping_add(position as i32);
            if !keep(at) {
                *x = value;
            }
        }
    }
    Raw::owned(form, values)
}

impl<T: Value, P> Tile<T, (P,)> {
    /// `value` wherever `keep`, given the element's coordinate, is false.
    pub fn mask(self, keep: impl Fn(i32) -> bool, value: impl Fill<T>) -> Self {
        Tile::new(mask(self.raw, value.fill(), |[i, _, _]| keep(i)))
    }
}

impl<T: Value, P, Q> Tile<T, (P, Q)> {
    /// `value` wherever `keep`, given the element's coordinates, is false.
    pub fn mask(self, keep: impl Fn(i32, i32) -> bool, value: impl Fill<T>) -> Self {
        Tile::new(mask(self.raw, value.fill(), |[i, j, _]| keep(i, j)))
    }
}

impl<T: Value, P, Q, R> Tile<T, (P, Q, R)> {
    /// `value` wherever `keep`, given the element's coordinates, is false.
    pub fn mask(self, keep: impl Fn(i32, i32, i32) -> bool, value: impl Fill<T>) -> Self {
        Tile::new(mask(self.raw, value.fill(), |[i, j, k]| keep(i, j, k)))
    }
}
