// Turns exceptions into status codes at the C boundary.
#pragma once
#include <new>

#include "kdey.h"

namespace kdey {

template <class Body>
int32_t guarded(const Body& body) {
  try {
    body();
    return KDEY_OK;
  } catch (const std::bad_alloc&) {
    return KDEY_OUT_OF_MEMORY;
  } catch (...) {
    return KDEY_INTERNAL;
  }
}

}  // namespace kdey
