// A 64-byte aligned buffer of doubles that only ever grows.
#pragma once
#include <cstdint>
#include <memory>
#include <new>

namespace kdey {

class Buffer {
 public:
  // Returns room for n doubles, contents unspecified.
  double* room(int64_t n) {
    if (n > size_) {
      data_.reset();
      data_.reset(static_cast<double*>(
          ::operator new(static_cast<size_t>(n) * sizeof(double), std::align_val_t{64})));
      size_ = n;
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(double* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<double, Free> data_;
  int64_t size_ = 0;
};

}  // namespace kdey
