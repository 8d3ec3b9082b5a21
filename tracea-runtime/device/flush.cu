// Reads all of a buffer and keeps nothing: what L2 held before makes way for lines that need not be written back.
extern "C" __global__ void __launch_bounds__(256) read_all(const uint4* from, unsigned long long count) {
    const unsigned long long step = 256ull * gridDim.x;
    for (unsigned long long i = 256ull * blockIdx.x + threadIdx.x; i < count; i += step) {
        uint4 v;
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "l"(from + i));
    }
}
