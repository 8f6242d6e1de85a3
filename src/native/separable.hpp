// SQP on the simplex for one separable problem, min sum_j v_j phi(R_j . x, q_j).
#pragma once
#include <cstdint>

#include "aligned.hpp"
#include "quadratic.hpp"
#include "separable_kernels.hpp"

namespace kdey {

// n rows in panels; no row is all zero, every v is positive.
struct SeparableProblem {
  int64_t loss, n, k;
  const double *rows, *v, *q;
};

struct Certificate {
  double gap;
  int64_t n_iter;
};

class SeparableSolver {
 public:
  SeparableSolver(const SeparableKernels& kernels, int64_t k);

  // Improves x (k entries on the simplex) until its gap is at most tol.
  Certificate solve(const SeparableProblem& problem, double tol, int64_t max_iter, double* x);

  // Moves x near the solution by solving roughly for a few evenly spaced rows, where there are
  // many: the first, shortened steps are most of the work and need no more than that.
  void approach(const SeparableProblem& problem, double* x);

  // The mixtures R x of the solution just found.
  const double* mixtures() const { return p_; }

 private:
  void begin(const SeparableProblem& problem, const double* x);
  void gradient(const SeparableProblem& problem, const double* p, double* out);
  double gap() const;
  double newton_step(const SeparableProblem& problem);
  double slope_at(const SeparableProblem& problem, double t, double* out);
  double slope_of(const double* gradient) const;
  double search(const SeparableProblem& problem);
  void move(const SeparableProblem& problem, double t);
  bool reopen(const SeparableProblem& problem, double share);
  bool settle(const SeparableProblem& problem, double tol, double before);
  void blend(double* x) const;
  double exchange(const SeparableProblem& problem);
  void multiply(const SeparableProblem& problem);
  double secular() const;

  const SeparableKernels& kernels_;
  int64_t k_;
  ActiveSet program_;
  Aligned<double> small_, large_, thinned_;
  // Vectors of k: the point, the model's minimiser, the linear term, and gradients at the
  // point and at two trial points; the total of each column of the rows.
  double *x_, *z_, *linear_, *g_, *trial_, *half_, *mass_;
  double* hessian_;
  // Vectors of n: mixtures at x, at z, in between; loss derivatives.
  double *p_ = nullptr, *end_ = nullptr, *middle_ = nullptr, *slope_ = nullptr, *curve_ = nullptr;
};

// The kernels of the instruction set in use.
SeparableKernels separable_kernels();

}  // namespace kdey
