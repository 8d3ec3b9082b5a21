//! The product of two tiles.

use super::Tile;
use super::form::Form;
use super::matrix::Accumulator;
use super::raw::{AddInto, Raw};
use crate::element::Arithmetic;

struct Product<T: Arithmetic> {
    a: Raw<T>,
    b: Raw<T>,
}

impl<T: Arithmetic> AddInto<T::Acc> for Product<T> {
    fn add_into(&self, into: &mut Accumulator<T::Acc>) {
        T::accumulate(self.a.matrix(), self.b.matrix(), into);
    }
}

/// `(m, k) · (k, n)` to `(m, n)`, summed over `k` in the accumulator type.
pub fn dot<T: Arithmetic, M, K, N>(a: Tile<T, (M, K)>, b: Tile<T, (K, N)>) -> Tile<T::Acc, (M, N)> {
    let (a, b) = (a.raw.settled(), b.raw.settled());
    let mut form = Form::default();
    form.push(a.form.ids[0], a.form.sizes[0], a.form.origins[0]);
    form.push(b.form.ids[1], b.form.sizes[1], b.form.origins[1]);
    Tile::new(Raw::waiting(form, Box::new(Product { a, b })))
}
