// Reads all of a buffer and keeps nothing: what L2 held before makes way for lines that need not be written back.
extern "C" __global__ void __launch_bounds__(256) read_all(const uint4* from, unsigned long long count) {
    const unsigned long long step = 256ull * gridDim.x;
#pragma unroll 4
    for (unsigned long long i = 256ull * blockIdx.x + threadIdx.x; i < count; i += step) {
        // Volatile, or the assembler would drop a read that nobody looks at.
        asm volatile(
            "{\n"
            ".reg .b32 a, b, c, d;\n"
            "ld.volatile.global.v4.b32 {a, b, c, d}, [%0];\n"
            "}" ::"l"(from + i));
    }
}
