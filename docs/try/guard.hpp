// The guard of src/native/guard.hpp without exceptions: a page that runs out of memory stops.
#pragma once
#include "kdey.h"

namespace kdey {

template <class Body>
int32_t guarded(const Body& body) {
  body();
  return KDEY_OK;
}

}  // namespace kdey
