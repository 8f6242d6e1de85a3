// An array on cache-line boundaries that only ever grows, not initialised.
#pragma once
#include <cstddef>
#include <memory>
#include <new>

namespace kdey {

template <class T>
class Aligned {
 public:
  Aligned() = default;
  explicit Aligned(size_t size) { reserve(size); }

  // At least `size` elements; the old contents are lost where it has to grow.
  T* reserve(size_t size) {
    if (size > size_) {
      data_.reset();
      size_ = 0;
      data_.reset(static_cast<T*>(::operator new(size * sizeof(T), std::align_val_t{64})));
      size_ = size;
    }
    return data_.get();
  }
  T* data() const { return data_.get(); }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace kdey
