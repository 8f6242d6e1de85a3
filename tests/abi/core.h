// What every part of the program shares: the library under test, checks, and numbers to try.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "kdey.h"

// The names of all entries, X(kdey_abi_version) X(kdey_isa) ...: read from kdey.h by
// scripts/abi_program.py, which compiles this program.
#ifndef KDEY_ENTRIES
#error "compile this program with scripts/abi_program.py"
#endif

// The entries as the library at run time has them, and which of them have been called.
struct entries {
#define X(name) __typeof__(name)* name;
  KDEY_ENTRIES
#undef X
};
struct calls {
#define X(name) int name;
  KDEY_ENTRIES
#undef X
};
extern struct entries entries;
extern struct calls calls;
#define CALL(name) (calls.name = 1, entries.name)

// Counts a check; one that fails is printed with what was being tried.
void check(int holds, const char* what, ...) __attribute__((format(printf, 2, 3)));
// |found - wanted| <= tolerance * (1 + |wanted|), or both the same infinity.
void check_close(double found, double wanted, double tolerance, const char* what);
// No entry is negative and they sum to one.
void check_simplex(const double* x, int64_t k, const char* what);
// x . gradient - min gradient, which bounds how far a convex objective is from its minimum.
double frank_wolfe_gap(const double* x, const double* gradient, int64_t k);

// Memory that is released when the program ends: it is small.
void* allocate(size_t count, size_t size);
double* doubles(int64_t count);
int64_t* integers(int64_t count);

// A fixed sequence of numbers: in [0, 1); with a standard normal distribution; in [0, bound).
double draw_unit(void);
double draw_normal(void);
int64_t draw_below(int64_t bound);
// Points of the simplex (count, k), each near the corner of a class, with exact zeros among them.
double* draw_posteriors(int64_t count, int64_t k);
// Positive rows (count, k), such as densities.
double* draw_rows(int64_t count, int64_t k);

// The parts, one file each.
void check_kernels(void);
void check_programs(void);
void check_separable(void);
void check_rows(void);
void check_draws(void);
