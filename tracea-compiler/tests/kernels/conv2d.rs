/// NHWC convolution as an implicit GEMM: no im2col buffer anywhere.
#[kernel]
pub fn conv2d<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f16, (N, H, W, C)>,
    w: &Tensor<f16, (K, R, S, C)>,
    bias: &Tensor<f16, (K,)>,
    y: &mut Tensor<f16, (N, P, Q, K)>,
    stride: i32,
    pad: i32,
    dilation: i32,
) {
    tile!(for (npq, ko) in (flat(N, P, Q), K) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for (r, s, c) in (each(R), each(S), C) {
            let window = x[(n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c)]; // outside reads 0
            acc += dot(window, w[(ko, r, s, c)].t());
        });
        y[(n, p, q, ko)] = (acc + bias[ko].to::<f32>()).map(silu).to();
    });
}
