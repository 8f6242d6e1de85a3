// Small convex quadratic programs, min x'Qx/2 - c.x over x >= 0 or over the simplex, by a primal
// active-set method with an updated Cholesky factor. The NumPy twin, with the reasons for the
// proximal passes and tolerances, is kdey/matching/sqp.py.
#pragma once
#include <cstdint>
#include <vector>

namespace kdey {

class ActiveSet {
 public:
  explicit ActiveSet(int64_t k);

  // Sets the matrix: gram (k rows, ld apart). On the simplex, level * 11' is added to it, which
  // changes no minimiser there but makes the free part definite; 0 means x >= 0 only.
  void set_gram(const double* gram, int64_t ld, double level);

  // Minimises from a feasible x (in place) with that many proximal passes; returns the steps.
  int64_t solve(const double* linear, double* x, int64_t passes);

 private:
  int64_t minimise(double* x);
  void open(const double* x);
  void append(int64_t i);
  void remove(int64_t position);
  bool solve_free();
  void substitute(const double* right, double* out) const;
  bool retreat(double* x);
  int64_t most_negative(const double* x);

  double* row(int64_t r) { return &factor_[r * k_]; }
  const double* row(int64_t r) const { return &factor_[r * k_]; }

  int64_t k_;
  double level_ = 0, shift_ = 0;
  bool full_ready_ = false;
  int64_t entered_ = -1;
  std::vector<double> gram_, factor_, full_, diagonal_, linear_, target_, ones_, right_, last_;
  std::vector<double> reduced_, size_;
  std::vector<int64_t> free_;  // the classes in play, in the order of the factor's rows
  std::vector<char> state_;    // per class: 0 at zero, 1 free, 2 barred from entering
};

}  // namespace kdey
