// Run-time choice among the instruction sets that isa/*.cpp were compiled for.
#pragma once

namespace kdey {
enum class Isa : int { baseline = 0, avx2 = 1, avx512 = 2 };

// The best instruction set this machine runs; KDEY_ISA=baseline|avx2|avx512 in the
// environment lowers it (for tests: every path must give the same answer).
Isa active_isa();
}  // namespace kdey
