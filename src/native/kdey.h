// The C ABI of kdey's native core. Every function returns 0 on success and a negative
// kdey_status otherwise; no exception crosses this boundary; no function keeps state.
#pragma once
#include <cstdint>

#if defined(_WIN32)
#define KDEY_API extern "C" __declspec(dllexport)
#else
#define KDEY_API extern "C" __attribute__((visibility("default")))
#endif

enum kdey_status : int32_t {
  KDEY_OK = 0,
  KDEY_OUT_OF_MEMORY = -1,
  KDEY_BAD_ARGUMENT = -2,
  KDEY_INTERNAL = -3,
};

// Raised when a signature below changes; kdey/native.py refuses another number.
#define KDEY_ABI_VERSION 1
KDEY_API int32_t kdey_abi_version();
// Instruction set picked for this machine: 0 baseline, 1 avx2, 2 avx512.
KDEY_API int32_t kdey_isa();
