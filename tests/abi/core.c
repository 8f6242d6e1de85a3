#include "core.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

struct entries entries;
struct calls calls;
static int n_checks, n_failures;
enum { kMostMessages = 100 };

void check(int holds, const char* what, ...) {
  ++n_checks;
  if (holds || ++n_failures > kMostMessages) return;
  va_list values;
  va_start(values, what);
  fprintf(stderr, "failed: ");
  vfprintf(stderr, what, values);
  fprintf(stderr, "\n");
  va_end(values);
}

void check_close(double found, double wanted, double tolerance, const char* what) {
  const int same = found == wanted || fabs(found - wanted) <= tolerance * (1 + fabs(wanted));
  check(same, "%s: %.17g, not %.17g", what, found, wanted);
}

void check_simplex(const double* x, int64_t k, const char* what) {
  double sum = 0;
  int valid = 1;
  for (int64_t i = 0; i < k; ++i) {
    valid = valid && x[i] >= 0;
    sum += x[i];
  }
  check(valid && fabs(sum - 1) <= 1e-12, "%s: outside the simplex, with a sum of %.17g", what, sum);
}

double frank_wolfe_gap(const double* x, const double* gradient, int64_t k) {
  double lowest = gradient[0], gap = 0;
  for (int64_t i = 1; i < k; ++i) lowest = gradient[i] < lowest ? gradient[i] : lowest;
  for (int64_t i = 0; i < k; ++i) gap += x[i] * (gradient[i] - lowest);
  return gap;
}

void* allocate(size_t count, size_t size) {
  void* memory = calloc(count ? count : 1, size);
  if (!memory) {
    fprintf(stderr, "out of memory\n");
    exit(2);
  }
  return memory;
}

double* doubles(int64_t count) { return allocate((size_t)count, sizeof(double)); }
int64_t* integers(int64_t count) { return allocate((size_t)count, sizeof(int64_t)); }

static uint64_t draw_bits(void) {  // SplitMix64
  static uint64_t state = 20;
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double draw_unit(void) { return (double)(draw_bits() >> 11) * 0x1p-53; }
int64_t draw_below(int64_t bound) { return (int64_t)(draw_bits() % (uint64_t)bound); }

double draw_normal(void) {
  const double radius = sqrt(-2 * log(1 - draw_unit()));
  return radius * cos(6.283185307179586 * draw_unit());
}

double* draw_posteriors(int64_t count, int64_t k) {
  double* rows = doubles(count * k);
  for (int64_t j = 0; j < count; ++j) {
    double *row = rows + j * k, sum = 0;
    for (int64_t i = 0; i < k; ++i) row[i] = draw_unit() < 0.2 ? 0 : -log(1 - draw_unit());
    row[draw_below(k)] += 2 + draw_unit();
    for (int64_t i = 0; i < k; ++i) sum += row[i];
    for (int64_t i = 0; i < k; ++i) row[i] /= sum;
  }
  return rows;
}

double* draw_rows(int64_t count, int64_t k) {
  double* rows = doubles(count * k);
  for (int64_t p = 0; p < count * k; ++p) rows[p] = exp(1.5 * draw_normal());
  return rows;
}

#if defined(_WIN32)
typedef HMODULE Library;
static Library open_library(const char* path) {
  Library library = LoadLibraryA(path);
  if (!library) fprintf(stderr, "%s: error %lu\n", path, GetLastError());
  return library;
}
static void* find_entry(Library library, const char* name) {
  return (void*)GetProcAddress(library, name);
}
#else
typedef void* Library;
static Library open_library(const char* path) {
  Library library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  return library;
}
static void* find_entry(Library library, const char* name) { return dlsym(library, name); }
#endif

static int load(const char* path) {
  Library library = open_library(path);
  if (!library) return 0;
  int complete = 1;
#define X(name)                                                 \
  entries.name = (__typeof__(name)*)find_entry(library, #name); \
  if (!entries.name) {                                          \
    fprintf(stderr, "%s has no %s\n", path, #name);             \
    complete = 0;                                               \
  }
  KDEY_ENTRIES
#undef X
  return complete;
}

// How many entries have been called; the others are named.
static int count_calls(int* n_entries) {
  int n_called = 0;
#define X(name)           \
  ++*n_entries;           \
  n_called += calls.name; \
  if (!calls.name) fprintf(stderr, "the program never calls %s\n", #name);
  KDEY_ENTRIES
#undef X
  return n_called;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
    return 2;
  }
  if (!load(argv[1])) return 2;
  const int32_t version = CALL(kdey_abi_version)(), isa = CALL(kdey_isa)();
  check(version == KDEY_ABI_VERSION, "ABI version %d, not %d", version, KDEY_ABI_VERSION);
  check(isa >= 0 && isa <= 2, "instruction set %d", isa);
  check_kernels();
  check_programs();
  check_separable();
  check_rows();
  check_draws();
  int n_entries = 0;
  const int n_called = count_calls(&n_entries);
  static const char* names[] = {"baseline", "avx2", "avx512"};
  printf("ABI %d, %s: %d of %d entries called, %d checks, %d failed\n", version,
         isa >= 0 && isa <= 2 ? names[isa] : "unknown", n_called, n_entries, n_checks, n_failures);
  return n_failures || n_called < n_entries ? 1 : 0;
}
