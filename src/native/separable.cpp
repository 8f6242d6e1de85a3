#include "separable.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "isa.hpp"

namespace kdey {
namespace {
// Share of the uniform prevalence blended into a start that explains some row not at all, or
// into a point where the steps got stuck.
constexpr double kBlend = 1e-3;
// A mixture below this share of a likelihood's row counts as not explained: its curvature is so
// large that no step could be made from there.
constexpr double kFaint = 1e-100;
constexpr int kHalvings = 60;
constexpr int64_t kRestarts = 3;
// A Newton step shortened below this is helped by an exchange between two classes.
constexpr double kShort = 1e-2;
// A class that a full step closed by mistake gets its prevalence back, and this share of it if that
// happens more than a few times: too much may be closed again and again, because the
// multiplicative step of the Hellinger distance hardly lowers a prevalence whose rows other classes
// explain, too.
constexpr double kReopened = 1.0 / 16;
constexpr int kFewReopened = 3;
// Curvature below this share of the spread of the slopes is made up for.
constexpr double kFlat = 1e-9;
// Rows that a thinned problem keeps: enough to tell k classes apart roughly.
int64_t thinned_rows(int64_t k) { return std::max<int64_t>(512, 12 * k); }
// It pays from this many times as many rows on.
constexpr int64_t kThinning = 4;
constexpr double kThinnedTolerance = 1e-3;
constexpr int64_t kThinnedIterations = 20;
// Multiplicative steps before the first Newton step: each costs as much as a gradient, a Newton
// step k times that, and together they halve the number of Newton steps. A divergence starts
// nearer to its end (see approach), so it needs fewer.
int first_steps(int64_t loss) { return loss == kNegativeLog ? 8 : loss == kHellinger ? 4 : 0; }
constexpr int kSecularSteps = 8;
}  // namespace

SeparableKernels separable_kernels() {
  switch (active_isa()) {
#if defined(KDEY_HAVE_X86_ISAS)
    case Isa::avx512: return avx512::separable_kernels();
    case Isa::avx2: return avx2::separable_kernels();
#endif
    default: return baseline::separable_kernels();
  }
}

SeparableSolver::SeparableSolver(const SeparableKernels& kernels, int64_t k)
    : kernels_(kernels), k_(k), program_(k) {
  x_ = small_.reserve(7 * k + k * k);
  z_ = x_ + k;
  linear_ = z_ + k;
  g_ = linear_ + k;
  trial_ = g_ + k;
  half_ = trial_ + k;
  mass_ = half_ + k;
  hessian_ = mass_ + k;
}

Certificate SeparableSolver::solve(const SeparableProblem& problem, double tol, int64_t max_iter,
                                   double* x) {
  begin(problem, x);
  gradient(problem, p_, g_);
  const int steps = first_steps(problem.loss);
  for (int i = 0; i < steps && !(gap() <= tol); ++i) multiply(problem);
  int64_t iteration = 0, restarts = 0, reopened = 0;
  while (!(gap() <= tol) && iteration < max_iter) {
    if (std::isnan(x_[0])) break;  // so was the start: nothing leads back
    ++iteration;
    const double before = gap();
    double promise = newton_step(problem);
    double t = promise < 0 ? search(problem) : 0;
    move(problem, t);
    // A shortened step is far from the end, often at a prevalence many orders too large; one that
    // closes a class some row cannot do without makes the gap jump. The multiplicative step
    // brings such a prevalence to its place at once, where halving would take dozens.
    const bool jumped = t == 1 && !(gap() <= before);
    const double share = reopened < kFewReopened ? 1 : kReopened;
    const bool opened = steps > 0 && jumped && reopen(problem, share);
    reopened += opened;
    if (opened || (steps > 0 && t < 1)) multiply(problem);
    if (t < 1 && (problem.loss == kNegativeLog || settle(problem, tol, before))) continue;
    if (t < kShort && exchange(problem) == 0 && t == 0) {
      // Stuck where a square root has no digit left: a prevalence so small that its slope is
      // huge and gains nothing. Coming back from a little further inside finds its place.
      if (++restarts > kRestarts) break;
      blend(x_);
      kernels_.mix(problem.rows, problem.n, k_, x_, p_);
      gradient(problem, p_, g_);
    }
  }
  std::copy(x_, x_ + k_, x);
  // A slope that is no number certifies nothing.
  return {std::isnan(gap()) ? std::numeric_limits<double>::infinity() : gap(), iteration};
}

void SeparableSolver::approach(const SeparableProblem& problem, double* x) {
  const int64_t stride = problem.n / thinned_rows(k_);
  if (stride < kThinning) return;
  const int64_t n = (problem.n + stride - 1) / stride;
  double* rows = thinned_.reserve(panelled(n) * k_ + 2 * n);
  double *v = rows + panelled(n) * k_, *q = v + n;
  for (int64_t j = n; j < panelled(n); ++j)
    for (int64_t i = 0; i < k_; ++i) rows[row_at(j, k_) + i * kPanel] = 0;
  for (int64_t j = 0; j < n; ++j) {
    const double* row = problem.rows + row_at(j * stride, k_);
    for (int64_t i = 0; i < k_; ++i) rows[row_at(j, k_) + i * kPanel] = row[i * kPanel];
    v[j] = problem.v[j * stride] * static_cast<double>(stride);
    q[j] = problem.q[j * stride];
  }
  SeparableProblem thinned{problem.loss, n, k_, rows, v, q};
  solve(thinned, kThinnedTolerance, kThinnedIterations, x);
  blend(x);
}

void SeparableSolver::blend(double* x) const {
  for (int64_t i = 0; i < k_; ++i) x[i] = (1 - kBlend) * x[i] + kBlend / k_;
}

void SeparableSolver::begin(const SeparableProblem& problem, const double* x) {
  const int64_t n = problem.n, size = panelled(n);
  p_ = large_.reserve(5 * size);
  end_ = p_ + size;
  middle_ = end_ + size;
  slope_ = middle_ + size;
  curve_ = slope_ + size;
  std::fill(slope_ + n, slope_ + size, 0.0);
  std::fill(curve_ + n, curve_ + size, 0.0);
  std::copy(x, x + k_, x_);
  if (problem.loss == kHellinger) {
    std::copy(problem.v, problem.v + n, slope_);
    kernels_.pull(problem.rows, n, k_, slope_, mass_);
  }
  kernels_.mix(problem.rows, n, k_, x_, p_);
  const double faint = problem.loss == kNegativeLog ? kFaint : 0;
  if (*std::min_element(p_, p_ + n) > faint) return;
  blend(x_);
  kernels_.mix(problem.rows, n, k_, x_, p_);
}

// The gradient where the mixtures are p.
void SeparableSolver::gradient(const SeparableProblem& problem, const double* p, double* out) {
  kernels_.first(problem.loss, problem.n, problem.v, p, problem.q, slope_);
  kernels_.pull(problem.rows, problem.n, k_, slope_, out);
}

// The Frank-Wolfe gap at x.
double SeparableSolver::gap() const {
  double lowest = *std::min_element(g_, g_ + k_), gap = 0;
  for (int64_t i = 0; i < k_; ++i)
    if (x_[i] != 0) gap += x_[i] * (g_[i] - lowest);  // NaN, should there be one, is passed on
  return gap;
}

// Minimises the quadratic model over the simplex, into z; returns the slope towards it.
double SeparableSolver::newton_step(const SeparableProblem& problem) {
  const int64_t n = problem.n;
  kernels_.second(problem.loss, n, problem.v, p_, problem.q, curve_);
  kernels_.curve(problem.rows, n, k_, curve_, hessian_);
  double level = 0;
  for (int64_t i = 0; i < k_; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < k_; ++j) sum += hessian_[i * k_ + j] * x_[j];
    linear_[i] = sum - g_[i];
    level += x_[i] * sum;
  }
  // Where the curvature is nothing beside the slopes (a bag far from every class), a little of
  // the slopes takes its place: the step still goes to the right vertex, and stays finite.
  const double floor = kFlat * (*std::max_element(g_, g_ + k_) - *std::min_element(g_, g_ + k_));
  if (level < floor && problem.loss != kNegativeLog) {  // a likelihood's curvature is always one
    for (int64_t i = 0; i < k_; ++i) {
      hessian_[i * k_ + i] += floor;
      linear_[i] += floor * x_[i];
    }
    level = floor;
  }
  program_.set_gram(hessian_, k_, level > 0 ? level : 1);
  std::copy(x_, x_ + k_, z_);
  program_.solve(linear_, z_, 1);
  double sum = 0;
  for (int64_t i = 0; i < k_; ++i) sum += z_[i];
  for (int64_t i = 0; i < k_; ++i) z_[i] /= sum;
  kernels_.mix(problem.rows, n, k_, z_, end_);
  return slope_of(g_);
}

// The slope towards z under a gradient. Relative to its least entry, which is no change on the
// simplex but keeps the slope exact where all entries are nearly equal: near the optimum.
double SeparableSolver::slope_of(const double* gradient) const {
  double lowest = *std::min_element(gradient, gradient + k_), slope = 0;
  for (int64_t i = 0; i < k_; ++i) {
    if (!std::isfinite(gradient[i])) return std::numeric_limits<double>::infinity();
    slope += (gradient[i] - lowest) * (z_[i] - x_[i]);
  }
  return slope;
}

// The slope of the loss at (1 - t) x + t z, towards z, and its gradient there.
double SeparableSolver::slope_at(const SeparableProblem& problem, double t, double* out) {
  const double* at = end_;
  if (t < 1) {
    for (int64_t j = 0; j < problem.n; ++j) middle_[j] = (1 - t) * p_[j] + t * end_[j];
    at = middle_;
  }
  gradient(problem, at, out);
  return slope_of(out);
}

// Halves the step until the loss is sure to fall. It is convex, so its slope rises along the
// step, and t/2 (slope(t/2) + slope(t)) bounds the change at t from above: no logarithm needed,
// and no cancellation near the optimum. An infinite or undefined slope counts as a rise. Leaves
// the gradient at the point accepted in g_.
double SeparableSolver::search(const SeparableProblem& problem) {
  double t = 1, here = slope_at(problem, t, trial_);
  for (int i = 0; i < kHalvings; ++i) {
    double half = here <= 0 ? 0 : slope_at(problem, t / 2, half_);
    if (here <= 0 || half + here <= 0) {
      std::swap(g_, trial_);
      return t;
    }
    std::swap(trial_, half_);
    t /= 2;
    here = half;
  }
  return 0;
}

void SeparableSolver::move(const SeparableProblem& problem, double t) {
  if (t == 0) return;  // z may be no point at all, and 0 times NaN is NaN
  if (t == 1) {
    std::swap(x_, z_);
    std::swap(p_, end_);
    return;
  }
  for (int64_t i = 0; i < k_; ++i) x_[i] = (1 - t) * x_[i] + t * z_[i];
  for (int64_t j = 0; j < problem.n; ++j) p_[j] = (1 - t) * p_[j] + t * end_[j];
}

// After a full step, gives the classes it closed but should not have a share of their prevalence
// back; returns whether there were any.
bool SeparableSolver::reopen(const SeparableProblem& problem, double share) {
  double level = 0, sum = 0;
  for (int64_t i = 0; i < k_; ++i)
    if (x_[i] > 0) level += x_[i] * g_[i];
  for (int64_t i = 0; i < k_; ++i) {
    if (x_[i] == 0 && g_[i] < level) sum += x_[i] = share * z_[i];
  }
  if (sum == 0) return false;
  for (int64_t i = 0; i < k_; ++i) x_[i] /= 1 + sum;
  kernels_.mix(problem.rows, problem.n, k_, x_, p_);
  gradient(problem, p_, g_);
  return true;
}

// More multiplicative steps, for as long as they close the gap quickly; returns whether they did.
bool SeparableSolver::settle(const SeparableProblem& problem, double tol, double before) {
  if (problem.loss != kHellinger) return false;
  double last = before;
  while (!(gap() <= tol) && gap() < last / 2) {
    last = gap();
    multiply(problem);
  }
  return gap() < before / 2;
}

// Moves prevalence from the class of the steepest rise to that of the steepest fall, as far as
// the loss falls; returns the fraction moved. It needs no model, so it works where curvatures of
// many orders leave the Newton step without a digit (a divergence near the border).
double SeparableSolver::exchange(const SeparableProblem& problem) {
  int64_t best = 0, worst = -1;
  for (int64_t i = 0; i < k_; ++i) {
    if (g_[i] < g_[best]) best = i;
    if (x_[i] > 0 && (worst < 0 || g_[i] > g_[worst])) worst = i;
  }
  if (worst < 0 || worst == best) return 0;
  std::copy(x_, x_ + k_, z_);
  z_[best] += z_[worst];
  z_[worst] = 0;
  kernels_.mix(problem.rows, problem.n, k_, z_, end_);
  double t = slope_of(g_) < 0 ? search(problem) : 0;
  move(problem, t);
  return t;
}

// A step of EM or, for the Hellinger distance, of its like: by Cauchy-Schwarz sqrt(p_j) is at
// least sum_i sqrt(a_i x_i) R_ji / sqrt(p_j(x)), and the bound is best at
// a_i = x_i (s_i / (m_i + l))^2 with m = R'v, s = m - g and l such that the a_i sum to one.
void SeparableSolver::multiply(const SeparableProblem& problem) {
  const double shift = problem.loss == kNegativeLog ? 0 : secular();
  double sum = 0;
  for (int64_t i = 0; i < k_; ++i) {
    double factor = -g_[i];
    if (problem.loss == kHellinger) {
      factor = (mass_[i] - g_[i]) / (mass_[i] + shift);
      factor *= factor;
    }
    sum += half_[i] = x_[i] > 0 ? x_[i] * factor : 0.0;
  }
  if (!(sum > 0) || !std::isfinite(sum)) return;  // a bag so far away that it has no digit left
  for (int64_t i = 0; i < k_; ++i) half_[i] /= sum;
  kernels_.mix(problem.rows, problem.n, k_, half_, middle_);
  gradient(problem, middle_, trial_);
  // A prevalence that underflows can leave a row without its only class, and nothing leads back.
  if (!std::all_of(trial_, trial_ + k_, [](double value) { return std::isfinite(value); })) return;
  std::swap(x_, half_);
  std::swap(p_, middle_);
  std::swap(g_, trial_);
}

// The l of `multiply`: Newton's method on 1/sqrt of the sum, which is nearly straight, from below.
double SeparableSolver::secular() const {
  double shift = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < k_; ++i)
    if (x_[i] > 0) shift = std::max(shift, std::sqrt(x_[i]) * (mass_[i] - g_[i]) - mass_[i]);
  for (int step = 0; step < kSecularSteps; ++step) {
    double sum = 0, slope = 0;
    for (int64_t i = 0; i < k_; ++i) {
      if (!(x_[i] > 0)) continue;
      const double ratio = (mass_[i] - g_[i]) / (mass_[i] + shift);
      sum += x_[i] * ratio * ratio;
      slope += x_[i] * ratio * ratio / (mass_[i] + shift);
    }
    if (!(sum > 1)) break;
    shift += sum * (std::sqrt(sum) - 1) / slope;
  }
  return shift;
}

}  // namespace kdey
