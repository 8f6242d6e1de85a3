// A main program for a fuzz harness where there is no libFuzzer: on an emulated processor, or with
// another compiler. The inputs are random bytes, not guided by anything.
//
//   generated_<entry> [INPUTS [SEED]]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::atol(argv[1]) : 1000;
  uint64_t state = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1) * 0x9e3779b97f4a7c15u + 1;
  auto next = [&state] {  // xorshift
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
  };
  for (long input = 0; input < count; ++input) {
    std::vector<uint8_t> bytes(next() % 200);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(next() >> 32);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%ld inputs, every promise held\n", count);
  return 0;
}
