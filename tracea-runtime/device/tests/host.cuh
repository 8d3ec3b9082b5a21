// What the self-tests share: a report, device memory and launches, number formats by their definition, random values.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tracea/fast_div.cuh"
#include "tracea/types.cuh"

using namespace tracea;
using std::string;
using std::vector;

namespace {

// ---- report

int passed = 0, failed = 0;

void check(const string& name, bool good, const string& detail = "") {
    ++(good ? passed : failed);
    std::printf("%s %s%s%s\n", good ? "ok    " : "FAILED", name.c_str(), detail.empty() ? "" : ": ", detail.c_str());
    std::fflush(stdout);
}

void require(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    std::printf("FAILED %s: %s\n", what, cudaGetErrorString(status));
    std::exit(2);
}

string number(double x) {
    char text[40];
    std::snprintf(text, sizeof text, "%.4g", x);
    return text;
}

FastDiv divisor_of(unsigned d) {
    unsigned shift = 0;
    while ((1ull << shift) < d) ++shift;
    return {d, static_cast<unsigned>(((1ull << 32) * ((1ull << shift) - d)) / d + 1), shift};
}

// Of so many rows by groups, the last group's.
FastDiv by_last_group(int rows, int group) { return divisor_of(static_cast<unsigned>((rows - 1) % group + 1)); }

// ---- device memory and launches

template <class T>
struct Buffer {
    T* pointer = nullptr;
    size_t count;

    explicit Buffer(size_t n) : count(n) {
        require(cudaMalloc(reinterpret_cast<void**>(&pointer), (n + 1) * sizeof(T)), "cudaMalloc");
        require(cudaMemset(pointer, 0xa5, n * sizeof(T)), "cudaMemset");
    }
    explicit Buffer(const vector<T>& host) : Buffer(host.size()) {
        require(cudaMemcpy(pointer, host.data(), count * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
    }
    Buffer(const Buffer&) = delete;
    ~Buffer() { cudaFree(pointer); }

    vector<T> read() const {
        vector<T> host(count);
        require(cudaMemcpy(host.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
        return host;
    }
};

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int blocks, int threads, int shared_bytes, Arguments... arguments) {
    if (shared_bytes > 48 * 1024) {
        require(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
                "shared memory");
    }
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    require(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "launch");
    require(cudaDeviceSynchronize(), "kernel");
}

// ---- host arithmetic: the formats by their definition

double value(f16 x) {
    const int sign = x.bits >> 15, exponent = x.bits >> 10 & 31, mantissa = x.bits & 1023;
    double v;
    if (exponent == 31) {
        v = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    } else {
        v = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    }
    return sign ? -v : v;
}
double value(bf16 x) {
    const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
}
double value(float x) { return x; }
double value(int x) { return x; }

// To the nearest of a format with `mantissa` bits behind the point and least exponent `least`, ties to even or away from zero.
double rounded(double x, int mantissa, int least, double largest, bool ties_away) {
    if (x == 0 || !std::isfinite(x)) return x;
    int exponent;
    std::frexp(x, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent - 1, least) - mantissa);
    const double quotient = x / unit;
    const double r = (ties_away ? std::round(quotient) : std::nearbyint(quotient)) * unit;
    return std::fabs(r) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : r;
}
template <class T>
double round_to(double x) {
    if constexpr (same<T, f16>) return rounded(x, 10, -14, 65504, false);
    if constexpr (same<T, bf16>) return rounded(x, 7, -126, 3.3895313892515355e38, false);
    if constexpr (same<T, tf32>) return rounded(x, 10, -126, 3.4011621342146535e38, true);
    return static_cast<double>(static_cast<float>(x));
}
f16 half_of(double x) {
    x = round_to<f16>(x);
    if (std::isnan(x)) return f16{0x7fff};
    const unsigned sign = std::signbit(x) ? 0x8000u : 0u;
    x = std::fabs(x);
    if (std::isinf(x)) return f16{static_cast<unsigned short>(sign | 0x7c00u)};
    int exponent;
    std::frexp(x, &exponent);
    if (exponent - 1 < -14) return f16{static_cast<unsigned short>(sign | static_cast<unsigned>(std::ldexp(x, 24)))};
    const unsigned mantissa = static_cast<unsigned>(std::ldexp(x, 11 - exponent)) - 1024;
    return f16{static_cast<unsigned short>(sign | static_cast<unsigned>(exponent + 14) << 10 | mantissa)};
}
bf16 bhalf_of(double x) {
    const float v = static_cast<float>(round_to<bf16>(x));
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    return bf16{static_cast<unsigned short>(bits >> 16)};
}
template <class T>
T make(double x) {
    if constexpr (same<T, f16>) {
        return half_of(x);
    } else if constexpr (same<T, bf16>) {
        return bhalf_of(x);
    } else {
        return static_cast<T>(x);
    }
}
template <class T>
bool equal_bits(const T& a, const T& b) {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
}
template <class T>
string name_of() {
    if constexpr (same<T, f16>) return "f16";
    if constexpr (same<T, bf16>) return "bf16";
    if constexpr (same<T, tf32>) return "tf32";
    if constexpr (same<T, int>) return "int";
    if constexpr (same<T, bool>) return "bool";
    return "float";
}

std::mt19937 generator(20240607);

double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(generator); }

template <class T>
vector<T> random_values(size_t n, double low = -1, double high = 1) {
    vector<T> v(n);
    for (T& x : v) x = make<T>(uniform(low, high));
    return v;
}

}  // namespace
