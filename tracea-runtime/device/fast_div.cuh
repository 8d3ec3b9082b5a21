// Division of a non-negative int by a number that is known only at launch: one multiplication and a shift.
#pragma once

namespace tracea {

// For a divisor d >= 1 the host sets
//     shift      = ceil(log2(d))
//     multiplier = floor(2^32 * (2^shift - d) / d) + 1
// and for 0 <= n < 2^31 the quotient is (mulhi(n, multiplier) + n) >> shift. The sum stays under 2^32 because n is under
// 2^31. (Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994, figure 4.1.)
struct FastDiv {
    unsigned divisor, multiplier, shift;

    __device__ __forceinline__ int div(int n) const {
        return static_cast<int>((__umulhi(static_cast<unsigned>(n), multiplier) + static_cast<unsigned>(n)) >> shift);
    }
    __device__ __forceinline__ int rem(int n) const { return n - div(n) * static_cast<int>(divisor); }
    __device__ __forceinline__ void divmod(int n, int& quotient, int& remainder) const {
        quotient = div(n);
        remainder = n - quotient * static_cast<int>(divisor);
    }
};

}  // namespace tracea
