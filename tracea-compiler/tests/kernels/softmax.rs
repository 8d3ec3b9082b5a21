/// Two passes over each row: the running maximum and sum, then the quotient.
#[kernel]
pub fn softmax<R: Dim, C: Dim>(x: &Tensor<f16, (R, C)>, y: &mut Tensor<f16, (R, C)>) {
    tile!(for i in R {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        tile!(for j in C {
            let s = x[(i, j)].to::<f32>();
            let m_new = m.max(s.row_max());
            l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
            m = m_new;
        });
        tile!(for j in C {
            y[(i, j)] = ((x[(i, j)].to::<f32>() - m).exp() / l).to();
        });
    });
}
