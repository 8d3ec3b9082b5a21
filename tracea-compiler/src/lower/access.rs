//! Index expressions → rows, columns and the bounds that must be checked.

use super::analysis::{axes_in, is_tiled};
use super::{Lowering, columns};
use crate::nest::{AxisId, Extent, Int, TensorId};
use crate::plan;
use crate::program::{Access, AccessForm};

/// Columns that a thread takes at a time, at most, where it knows which of them share an element.
pub const OF_A_VECTOR: u32 = 8;

impl Lowering<'_> {
    /// How a tile with these row and column axes lies in the tensor.
    pub fn access(&mut self, tensor: TensorId, index: &[Int], rows: Option<AxisId>, cols: Option<AxisId>) -> Access {
        let form = match cols {
            Some(cols) if self.runs_along(tensor, index, cols) => AccessForm::Contiguous { rows, cols },
            Some(cols) if self.runs_along_part(tensor, index, cols) => AccessForm::Contiguous { rows, cols },
            _ => AccessForm::Scattered { rows, cols },
        };
        if matches!(form, AccessForm::Contiguous { .. }) && !self.program.aligned.contains(&tensor) {
            self.program.aligned.push(tensor);
        }
        let dims = &self.nest.tensor(tensor).dims;
        let last = index.len().saturating_sub(1);
        let mut limits = Vec::new();
        let mut inside = Vec::new();
        for (at, int) in index.iter().enumerate() {
            let exact = match int {
                Int::Axis(axis) => self.nest.runs_over(*axis, dims[at]),
                Int::FlatCoord(axis, part) => {
                    matches!(&self.nest.axis(*axis).extent, Extent::Flat(parts) if parts[*part] == dims[at])
                }
                _ => false,
            };
            let surely = match form {
                AccessForm::Contiguous { cols, .. } if at == last => {
                    columns::surely_inside(self.nest, int, cols, dims[at])
                }
                _ => self.provably_inside(int, self.nest.dim(dims[at]).known),
            };
            if !exact && !surely {
                inside.push(at);
            }
            axes_in(int, &mut |axis| {
                let by_columns = matches!(form, AccessForm::Contiguous { cols, .. } if cols == axis);
                if is_tiled(self.nest, axis) && self.partial(axis) && !by_columns && !limits.contains(&axis) {
                    limits.push(axis);
                }
            });
        }
        // A tile may span an axis that its index does not name (a broadcast row); its edge is nobody's concern.
        let whole_cols = matches!(form, AccessForm::Contiguous { cols, .. } if self.inside.contains(&cols))
            && !inside.contains(&last);
        let alike = match form {
            AccessForm::Scattered { cols: Some(cols), .. } => self.alike(index, cols),
            _ => 1,
        };
        Access { tensor, index: index.to_vec(), form, limits, inside, whole_cols, alike, held: None }
    }

    /// How many columns from each multiple of as many on have one element between them: as many as a vector holds, at most.
    fn alike(&self, index: &[Int], cols: AxisId) -> u32 {
        let block = self.schedule.blocks[cols.index()].unwrap_or(1);
        let moved = self.off_vectors.contains(&cols) || self.is_skewed(cols) || self.is_whole(cols);
        let all = index.iter().map(|int| columns::alike(int, cols)).min().unwrap_or(1);
        if moved || !block.is_multiple_of(OF_A_VECTOR) { 1 } else { all.min(OF_A_VECTOR) }
    }

    /// Whether the axis' elements are the tensor's rows to their end, and a block begins where a vector does.
    pub fn runs_along(&self, tensor: TensorId, index: &[Int], axis: AxisId) -> bool {
        columns::are_whole(self.nest, tensor, index, axis) && !self.off_vectors.contains(&axis)
    }

    /// Whether they are parts of the rows that vectors may begin with; the program then says of what they must be multiples.
    fn runs_along_part(&mut self, tensor: TensorId, index: &[Int], axis: AxisId) -> bool {
        if self.off_vectors.contains(&axis) || self.is_skewed(axis) || self.is_whole(axis) {
            return false;
        }
        let Some(numbers) = columns::of_parts(self.nest, tensor, index, axis) else { return false };
        for number in numbers {
            let counted = plan::Columns { tensor: tensor.index(), number };
            if !self.program.columns.contains(&counted) {
                self.program.columns.push(counted);
            }
        }
        true
    }

    /// Whether an access is to whole rows.
    pub fn is_to_rows(&self, access: &Access) -> bool {
        matches!(access.form, AccessForm::Contiguous { cols, .. } if self.runs_along(access.tensor, &access.index, cols))
    }

    fn provably_inside(&self, int: &Int, size: Option<i64>) -> bool {
        match (int, size) {
            (Int::Const(at), Some(size)) => (0..size).contains(at),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{accesses, gemm, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// The accesses of `y[(i, j)] = …`, 8 × 256 blocks.
    fn elementwise(load: TokenStream) -> Vec<String> {
        accesses(&program(quote! {
            #[schedule(sm_80, i = 8, j = 256)]
            fn f<M: Dim, N: Dim>(
                x: &Tensor<f32, (M, N)>, t: &Tensor<f32, (N, M)>, bias: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (M, N)>, by: i32,
            ) {
                tile!(for (i, j) in (M, N) { y[(i, j)] = #load; });
            }
        }))
    }

    #[test]
    fn rows_of_a_tensor_are_read_as_rows() {
        // Columns are counted by the access itself.
        assert_eq!(elementwise(quote!(x[(i, j)])), ["x by rows, i < end", "y by rows, i < end"]);
    }

    #[test]
    fn quotients_of_columns_have_elements_in_common() {
        let alike = |load: TokenStream| elementwise(load)[0].clone();
        assert_eq!(alike(quote!(x[(i, j / 8)])), "x by elements, 8 alike, i < end, j < end, 1 inside");
        assert_eq!(alike(quote!(x[(i, j / 12)])), "x by elements, 4 alike, i < end, j < end, 1 inside");
        assert_eq!(alike(quote!(x[(i, j / 128 * 3)])), "x by elements, 8 alike, i < end, j < end, 1 inside");
        assert_eq!(alike(quote!(x[(i, j / 3)])), "x by elements, i < end, j < end, 1 inside");
        assert_eq!(alike(quote!(x[(i, (j + 1) / 8)])), "x by elements, i < end, j < end, 1 inside");
        assert_eq!(alike(quote!(x[(j / 8, j)])), "x by elements, j < end, 0 inside");
    }

    #[test]
    fn columns_from_amid_a_group_have_none() {
        let first = |from: i32| {
            accesses(&program(quote! {
                #[schedule(sm_80, i = 8, j = 256)]
                fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
                    tile!(for i in M {
                        let mut sum = zeros::<f32>(i);
                        tile!(for j in N.from(#from) { sum += (x[(i, j)] * x[(i, j / 8)]).row_sum(); });
                        y[i] = sum;
                    });
                }
            }))
        };
        let is_alike = |from: i32| first(from).iter().any(|access| access.contains("8 alike"));
        assert_eq!([0, 4, 8].map(is_alike), [true, false, true], "{:?}", first(8));
    }

    #[test]
    fn a_transposed_tensor_is_read_by_elements() {
        assert_eq!(elementwise(quote!(x[(i, j)] + t[(j, i)].t()))[1], "t by elements, j < end, i < end");
    }

    #[test]
    fn a_vector_beside_a_tile_is_read_as_a_row() {
        assert_eq!(elementwise(quote!(x[(i, j)] + bias[j]))[1], "bias by rows");
    }

    #[test]
    fn shifted_coordinates_are_checked_against_the_tensor() {
        assert_eq!(elementwise(quote!(x[(i - 1, j)]))[0], "x by rows, i < end, 0 inside");
        assert_eq!(elementwise(quote!(x[(i, j + by)]))[0], "x by elements, i < end, j < end, 1 inside");
    }

    #[test]
    fn a_constant_inside_a_known_size_is_not_checked() {
        let of = |at: TokenStream| {
            accesses(&program(quote! {
                fn f<N: Dim>(x: &Tensor<f32, (Const<4>, N)>, y: &mut Tensor<f32, (N,)>) { tile!(for i in N { y[i] = x[(#at, i)]; }); }
            }))
        };
        assert_eq!(of(quote!(3)), ["x by rows", "y by rows"]);
        assert_eq!(of(quote!(4)), ["x by rows, 0 inside", "y by rows"]);
    }

    #[test]
    fn known_sizes_that_blocks_divide_are_not_checked() {
        let of = |rows: TokenStream| {
            accesses(&program(quote! {
                #[schedule(sm_80, i = 8, j = 256)]
                fn f(x: &Tensor<f32, (Const<#rows>, Const<512>)>, y: &mut Tensor<f32, (Const<#rows>, Const<512>)>) {
                    tile!(for (i, j) in (Const::<#rows>, Const::<512>) { y[(i, j)] = x[(i, j)]; });
                }
            }))
        };
        assert_eq!(of(quote!(64)), ["x by rows", "y by rows"]);
        assert_eq!(of(quote!(65)), ["x by rows, i < end", "y by rows, i < end"]);
    }

    #[test]
    fn a_flat_axis_is_checked_as_a_whole() {
        let accesses = accesses(&program(quote! {
            #[schedule(sm_80, pq = 8, c = 256)]
            fn f<P: Dim, Q: Dim, C: Dim>(x: &Tensor<f32, (P, Q, C)>, y: &mut Tensor<f32, (P, Q, C)>) {
                tile!(for (pq, c) in (flat(P, Q), C) {
                    let (p, q) = pq.coords();
                    y[(p, q, c)] = x[(p, q - 1, c)];
                });
            }
        }));
        assert_eq!(accesses, ["x by rows, pq < end, 1 inside", "y by rows, pq < end"]);
    }

    #[test]
    fn operands_are_copied_as_rows_whichever_way_they_lie() {
        let program = program(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2))));
        let (a, b) = ("a by rows, i < end", "b by rows, k < end");
        assert_eq!(accesses(&program), [a, b, a, b, "c by rows, i < end"]);
    }

    #[test]
    fn a_loop_that_starts_in_the_middle_is_read_by_elements_and_checked() {
        // 2048 is a multiple of the block, but a first coordinate of 5 is not.
        let accesses = accesses(&program(quote! {
            #[schedule(sm_80, i = 8, j = 256)]
            fn f<M: Dim>(x: &Tensor<f32, (M, Const<2048>)>, y: &mut Tensor<f32, (M,)>, first: i32) {
                tile!(for i in M {
                    let mut total = zeros::<f32>(i);
                    tile!(for j in Const::<2048>.from(first) { total += x[(i, j)].row_sum(); });
                    y[i] = total;
                });
            }
        }));
        assert_eq!(accesses[0], "x by elements, i < end, j < end");
    }
}
