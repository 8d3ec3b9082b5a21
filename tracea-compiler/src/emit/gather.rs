//! Copies of elements whose places are a row's part plus a column's.

use super::Emitter;
use super::access::all_of;
use crate::nest::{AxisId, Int};
use crate::program::{Access, AccessForm, Parts};

impl Emitter<'_> {
    pub(super) fn copy_gathered(&mut self, source: &Access, parts: &Parts, (rows, cols): (AxisId, AxisId), head: &str) {
        let tensor = &self.program.names.tensors[source.tensor.index()];
        let dims = &self.nest.tensor(source.tensor).dims;
        let sizes: Vec<&str> =
            source.inside.iter().map(|at| self.program.names.dims[dims[*at].index()].as_str()).collect();
        self.out.line(format!("{head}{tensor}, AxisSizes<{}>{{{}}}, ", sizes.len(), sizes.join(", ")).trim_end());
        self.out.indent();
        self.place_part(source, &parts.rows, rows, true, ",");
        self.place_part(source, &parts.columns, cols, false, ");");
        self.out.dedent();
    }

    /// What one row, or one column, has a share in.
    pub(super) fn place_part(&mut self, source: &Access, index: &[Int], axis: AxisId, is_row: bool, tail: &str) {
        let (rows, cols) = if is_row { (Some(axis), None) } else { (None, Some(axis)) };
        let part = Access {
            index: index.to_vec(),
            form: AccessForm::Scattered { rows, cols },
            limits: source.limits.iter().copied().filter(|limited| *limited == axis).collect(),
            ..source.clone()
        };
        let place = self.place(&part, rows, cols);
        let count = place.inside.len();
        let along: Vec<String> = place.inside.iter().map(|(at, _)| at.clone()).collect();
        let offset = if place.offsets.is_empty() { "0".to_string() } else { place.offsets.join(" + ") };
        let parameter = if is_row { "int row" } else { "int col" };
        self.out.line(format!("[&]({parameter}) -> PlacePart<{count}> {{"));
        self.out.indent();
        for line in place.lines {
            self.out.line(line);
        }
        let exists = all_of(place.limits.into_iter());
        self.out.line(format!("return {{{offset}, {{{}}}, {exists}}};", along.join(", ")));
        self.out.dedent();
        self.out.line(format!("}}{tail}"));
    }
}

#[cfg(test)]
mod tests {
    use crate::emit::emit;
    use crate::testing::lowered;
    use quote::quote;

    #[test]
    fn rows_and_columns_say_their_parts() {
        let lowered = lowered(quote! {
            #[schedule(sm_80, lq = 64, j = 64, rc = 64, stages = 2, warps = (2, 2))]
            fn f<L: Dim, Q: Dim, W: Dim, C: Dim, R: Dim, N: Dim>(
                x: &Tensor<f16, (L, W, C)>, w: &Tensor<f16, (N, R, C)>, y: &mut Tensor<f32, (L, Q, N)>, pad: i32,
            ) {
                tile!(for (lq, j) in (flat(L, Q), N) {
                    let (l, q) = lq.coords();
                    let mut acc = zeros::<f32>((lq, j));
                    tile!(for (r, c) in (each(R), C) { acc += dot(x[(l, q * 2 + r - pad, c)], w[(j, r, c)].t()); });
                    y[(l, q, j)] = acc;
                });
            }
        })
        .expect("lowers");
        let text = emit(&lowered.nest, &lowered.program);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let begin = lines.iter().position(|line| line.starts_with("copy_gathered")).expect("a gathered operand");
        assert_eq!(
            lines[begin..begin + 14],
            [
                "copy_gathered<XRingBuffer, THREADS>(x_ring + stage * 4096, x, AxisSizes<1>{W},",
                "[&](int row) -> PlacePart<1> {",
                "const int lq = lq0 + row;",
                "const int lq_l = by_Q.div(lq);",
                "const int lq_q = by_Q.rem(lq);",
                "const int x_at1 = lq_q * 2 - pad;",
                "return {lq_l * x_stride0 + x_at1 * x_stride1, {x_at1}, lq < L * Q};",
                "},",
                "[&](int col) -> PlacePart<1> {",
                "const int rc = rc0 + col;",
                "const int rc_r = by_C.div(rc);",
                "const int rc_c = by_C.rem(rc);",
                "const int x_at1 = rc_r;",
                "return {x_at1 * x_stride1 + rc_c, {x_at1}, rc < R * C};",
            ]
        );
        assert!(lines.contains(&"// w: (N, R * C), where nothing lies between rows"));
    }
}
