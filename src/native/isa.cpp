#include "isa.hpp"

#include <cstdlib>
#include <cstring>

#include "kdey.h"

#if defined(KDEY_HAVE_X86_ISAS)
#include <cpuid.h>
#endif

namespace kdey {
namespace {
#if defined(KDEY_HAVE_X86_ISAS)
// Asked of the processor directly: __builtin_cpu_supports needs a run-time library that Clang on
// Windows does not link.
struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf) {
  Registers r;
  __get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;  // all zero where the processor does not know the leaf
}

// Which registers the operating system saves when it switches threads.
unsigned saved_registers() {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

Isa best_isa() {
  constexpr unsigned kFma = 1u << 12, kOsxsave = 1u << 27;                         // leaf 1, ecx
  constexpr unsigned kAvx2 = 1u << 5;                                              // leaf 7, ebx
  constexpr unsigned kAvx512 = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);  // F, DQ, BW, VL
  constexpr unsigned kYmm = 0x6, kZmm = 0xe6;  // what saved_registers must show
  const unsigned basic = cpuid(1).ecx, extended = cpuid(7).ebx;
  if (!(basic & kOsxsave)) return Isa::baseline;
  const unsigned saved = saved_registers();
  if (!(basic & kFma) || !(extended & kAvx2) || (saved & kYmm) != kYmm) return Isa::baseline;
  return (extended & kAvx512) == kAvx512 && (saved & kZmm) == kZmm ? Isa::avx512 : Isa::avx2;
}
#else
Isa best_isa() { return Isa::baseline; }
#endif
}  // namespace

Isa active_isa() {
  static const Isa best = best_isa();  // a virtual machine takes microseconds to answer
  if (const char* wanted = std::getenv("KDEY_ISA")) {
    if (!std::strcmp(wanted, "baseline")) return Isa::baseline;
    if (!std::strcmp(wanted, "avx2") && best == Isa::avx512) return Isa::avx2;
  }
  return best;
}
}  // namespace kdey

KDEY_API int32_t kdey_abi_version() { return KDEY_ABI_VERSION; }
KDEY_API int32_t kdey_isa() { return static_cast<int32_t>(kdey::active_isa()); }
