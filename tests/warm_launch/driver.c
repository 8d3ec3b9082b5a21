// A CUDA driver that does nothing: whatever is asked for before a launch is there, memory is the host's, and calls are counted, but for the question
// which context a thread has.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Address;

static unsigned long calls;
static __thread void* current;

// How often the driver was called, launches included.
unsigned long driver_calls(void) { return calls; }

// A call that does as the body says, and succeeds.
#define CALL(name, parameters, body) \
    int name parameters { \
        ++calls; \
        body \
        return 0; \
    }

CALL(cuInit, (unsigned flags), )
CALL(cuDriverGetVersion, (int* version), { *version = 13000; })
CALL(cuDeviceGetCount, (int* count), { *count = 1; })
CALL(cuDeviceGet, (int* device, int ordinal), { *device = ordinal; })
CALL(cuDeviceGetName, (char* name, int length, int device), { strncpy(name, "nothing", length); })
CALL(cuDeviceTotalMem_v2, (size_t* bytes, int device), { *bytes = (size_t)1 << 37; })
CALL(cuDeviceGetUuid, (char* uuid, int device), { memset(uuid, 1, 16); })
CALL(cuDeviceGetUuid_v2, (char* uuid, int device), { memset(uuid, 1, 16); })

// Of a device of compute capability 9.0.
static int attribute_of(int attribute) {
    switch (attribute) {
        case 13: return 1980000;       // clock, kHz
        case 16: return 132;           // multiprocessors
        case 36: return 2600000;       // memory clock, kHz
        case 37: return 5120;          // memory bus, bits
        case 38: return 60 << 20;      // L2, bytes
        case 75: return 9;             // compute capability, major
        case 76: return 0;             // and minor
        case 81: return 228 << 10;     // shared memory of a multiprocessor, bytes
        case 97: return 227 << 10;     // and of a block
        default: return 1;
    }
}
CALL(cuDeviceGetAttribute, (int* value, int attribute, int device), { *value = attribute_of(attribute); })

static char context, module, stream, event;
CALL(cuDevicePrimaryCtxRetain, (void** held, int device), { *held = &context; })
CALL(cuDevicePrimaryCtxRelease_v2, (int device), )
CALL(cuDevicePrimaryCtxSetFlags_v2, (int device, unsigned flags), )
int cuCtxGetCurrent(void** held) {
    *held = current;
    return 0;
}
CALL(cuCtxSetCurrent, (void* held), { current = held; })
CALL(cuCtxSynchronize, (void), )
CALL(cuStreamCreate, (void** made, unsigned flags), { *made = &stream; })
CALL(cuStreamDestroy_v2, (void* made), )
CALL(cuStreamSynchronize, (void* made), )
CALL(cuStreamWaitEvent, (void* made, void* awaited, unsigned flags), )
CALL(cuStreamIsCapturing, (void* made, int* status), { *status = 0; })
CALL(cuEventCreate, (void** made, unsigned flags), { *made = &event; })
CALL(cuEventDestroy_v2, (void* made), )
CALL(cuEventRecord, (void* made, void* in), )
CALL(cuEventSynchronize, (void* made), )

static Address memory(size_t bytes) { return (Address)aligned_alloc(256, (bytes + 255) / 256 * 256 + 256); }
CALL(cuMemAlloc_v2, (Address* at, size_t bytes), { *at = memory(bytes); })
CALL(cuMemAllocAsync, (Address* at, size_t bytes, void* in), { *at = memory(bytes); })
CALL(cuMemFree_v2, (Address at), { free((void*)at); })
CALL(cuMemFreeAsync, (Address at, void* in), { free((void*)at); })
CALL(cuMemGetInfo_v2, (size_t* free, size_t* all), { *free = *all = (size_t)1 << 37; })
CALL(cuMemsetD8_v2, (Address at, unsigned char value, size_t bytes), { memset((void*)at, value, bytes); })
CALL(cuMemsetD8Async, (Address at, unsigned char value, size_t bytes, void* in), { memset((void*)at, value, bytes); })
CALL(cuMemcpyHtoD_v2, (Address to, const void* from, size_t bytes), { memcpy((void*)to, from, bytes); })
CALL(cuMemcpyHtoDAsync_v2, (Address to, const void* from, size_t bytes, void* in), { memcpy((void*)to, from, bytes); })
CALL(cuMemcpyDtoH_v2, (void* to, Address from, size_t bytes), { memcpy(to, (void*)from, bytes); })
CALL(cuMemcpyDtoHAsync_v2, (void* to, Address from, size_t bytes, void* in), { memcpy(to, (void*)from, bytes); })

CALL(cuModuleLoadData, (void** made, const void* image), { *made = &module; })
CALL(cuModuleUnload, (void* made), )
CALL(cuModuleGetFunction, (void** made, void* of, const char* name), { *made = &module; })
CALL(cuFuncGetAttribute, (int* value, int attribute, void* function), { *value = 64; })
CALL(cuFuncSetAttribute, (void* function, int attribute, int value), )
CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* blocks, void* of, int threads, size_t shared), { *blocks = 1; })
CALL(cuTensorMapEncodeTiled, (void* map), { memset(map, 0, 128); })
CALL(cuTensorMapEncodeIm2col, (void* map), { memset(map, 0, 128); })

CALL(cuLaunchKernel, (void* function), )
CALL(cuLaunchKernelEx, (const void* configuration, void* function, void** parameters, void** extra), )

CALL(cuGetErrorName, (int error, const char** name), { *name = "nothing"; })
CALL(cuGetErrorString, (int error, const char** text), { *text = "nothing"; })
