#include "isa.hpp"

#include <cstdlib>
#include <cstring>

#include "kdey.h"

namespace kdey {
namespace {
Isa best_isa() {
#if defined(KDEY_HAVE_X86_ISAS)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return Isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::baseline;
}
}  // namespace

Isa active_isa() {
  Isa best = best_isa();
  if (const char* wanted = std::getenv("KDEY_ISA")) {
    if (!std::strcmp(wanted, "baseline")) return Isa::baseline;
    if (!std::strcmp(wanted, "avx2") && best == Isa::avx512) return Isa::avx2;
  }
  return best;
}
}  // namespace kdey

KDEY_API int32_t kdey_abi_version() { return KDEY_ABI_VERSION; }
KDEY_API int32_t kdey_isa() { return static_cast<int32_t>(kdey::active_isa()); }
