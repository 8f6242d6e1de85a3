// A growing array on cache-line boundaries, not initialised.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>

namespace kdey {

template <class T>
class Aligned {
 public:
  Aligned() = default;
  explicit Aligned(size_t size) { reserve(size); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  ~Aligned() { std::free(data_); }

  // At least `size` elements; the old contents are lost where it has to grow.
  T* reserve(size_t size) {
    if (size > size_) {
      std::free(data_);
      size_ = 0;
      data_ = static_cast<T*>(std::aligned_alloc(64, (size * sizeof(T) + 63) / 64 * 64));
      if (!data_) throw std::bad_alloc();
      size_ = size;
    }
    return data_;
  }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kdey
