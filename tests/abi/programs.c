// Quadratic programs and least squares: answers certified by their own gradients.
#include <math.h>

#include "core.h"

enum { kClasses = 6, kRows = 9, kPrograms = 12 };

// gram = M'M of templates (rows, k), which has full rank.
static double* gram_of(const double* templates, int64_t rows, int64_t k) {
  double* gram = doubles(k * k);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < k; ++j)
        gram[i * k + j] += templates[r * k + i] * templates[r * k + j];
  return gram;
}

static void gradient_of(const double* gram, const double* linear, const double* x, int64_t k,
                        double* out) {
  for (int64_t i = 0; i < k; ++i) {
    out[i] = -linear[i];
    for (int64_t j = 0; j < k; ++j) out[i] += gram[i * k + j] * x[j];
  }
}

// x >= 0 is best where the gradient is zero at positive entries and not negative at zeros.
static void check_nonnegative(const double* x, const double* gradient, int64_t k) {
  for (int64_t i = 0; i < k; ++i) {
    const int best = x[i] > 0 ? fabs(gradient[i]) <= 1e-9 : x[i] == 0 && gradient[i] >= -1e-9;
    check(best, "x[%d] = %g with a gradient of %g", (int)i, x[i], gradient[i]);
  }
}

static void solve(const double* gram, int64_t stride, const double* linear, int64_t simplex) {
  double *x = doubles(kPrograms * kClasses), gradient[kClasses];
  int64_t* steps = integers(kPrograms);
  const int32_t status = CALL(kdey_solve_programs)(gram, stride, linear, NULL, kPrograms, kClasses,
                                                   simplex, 3, 2, x, steps);
  check(status == KDEY_OK, "kdey_solve_programs: status %d", status);
  for (int64_t p = 0; p < kPrograms; ++p) {
    const double* answer = x + p * kClasses;
    gradient_of(gram + p * stride, linear + p * kClasses, answer, kClasses, gradient);
    if (!simplex) {
      check_nonnegative(answer, gradient, kClasses);
      continue;
    }
    check_simplex(answer, kClasses, "quadratic program");
    const double gap = frank_wolfe_gap(answer, gradient, kClasses);
    check(gap <= 1e-9, "quadratic program: a gap of %g", gap);
  }
}

static void check_least_squares(const double* templates, const double* gram) {
  double *targets = draw_posteriors(kPrograms, kRows), *x = doubles(kPrograms * kClasses);
  double objective[kPrograms], gap[kPrograms], gradient[kClasses];
  int64_t steps[kPrograms];
  const int32_t status = CALL(kdey_solve_least_squares)(
      templates, gram, targets, NULL, kPrograms, kRows, kClasses, 3, 2, x, objective, gap, steps);
  check(status == KDEY_OK, "kdey_solve_least_squares: status %d", status);
  for (int64_t p = 0; p < kPrograms; ++p) {
    double squares = 0;
    for (int64_t i = 0; i < kClasses; ++i) gradient[i] = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      double residual = -targets[p * kRows + r];
      for (int64_t i = 0; i < kClasses; ++i)
        residual += templates[r * kClasses + i] * x[p * kClasses + i];
      squares += residual * residual;
      for (int64_t i = 0; i < kClasses; ++i) gradient[i] += residual * templates[r * kClasses + i];
    }
    check_simplex(x + p * kClasses, kClasses, "least squares");
    check_close(objective[p], squares / 2, 1e-12, "objective of least squares");
    check_close(gap[p], frank_wolfe_gap(x + p * kClasses, gradient, kClasses), 1e-12,
                "gap of least squares");
    check(gap[p] <= 1e-9, "least squares: a gap of %g", gap[p]);
  }
}

// The mean posterior of one bag, alone and matched with templates; a bag that is not answered.
static void check_one_bag(void) {
  const int64_t k = kClasses, m = kPrograms;
  double *templates = draw_posteriors(k, k), *bag = draw_posteriors(m, k);
  for (int64_t i = 0; i < k; ++i) templates[i * k + i] += 1;
  double *gram = gram_of(templates, k, k), mean[kClasses], shares[kClasses] = {0}, x[kClasses];
  double matched[kClasses], objective, gap;
  int64_t steps;
  for (int64_t j = 0; j < m; ++j) {
    int64_t top = 0;
    for (int64_t i = 1; i < k; ++i)
      if (bag[j * k + i] > bag[j * k + top]) top = i;
    shares[top] += 1.0 / (double)m;
  }
  int32_t status = CALL(kdey_match_one_bag)(bag, 1, m, k, 1, NULL, NULL, 3, 1e-3, 1e-10, mean);
  for (int64_t i = 0; i < k; ++i) check_close(mean[i], shares[i], 1e-15, "share of decisions");
  check(status == KDEY_OK, "kdey_match_one_bag counts: status %d", status);
  status = CALL(kdey_match_one_bag)(bag, 1, m, k, 0, NULL, NULL, 3, 1e-3, 1e-10, mean);
  check(status == KDEY_OK, "kdey_match_one_bag without templates: status %d", status);
  status = CALL(kdey_match_one_bag)(bag, 1, m, k, 0, templates, gram, 3, 1e-3, 1e-10, x);
  check(status == KDEY_OK, "kdey_match_one_bag: status %d", status);
  CALL(kdey_solve_least_squares)(templates, gram, mean, NULL, 1, k, k, 3, 1, matched, &objective,
                                 &gap, &steps);
  for (int64_t i = 0; i < k; ++i) check_close(x[i], matched[i], 1e-13, "prevalence of one bag");
  bag[0] += 0.1;
  status = CALL(kdey_match_one_bag)(bag, 1, m, k, 0, templates, gram, 3, 1e-3, 1e-10, x);
  check(status == KDEY_UNANSWERED, "a bag off the simplex: status %d", status);
  status = CALL(kdey_match_one_bag)(bag, 1, 0, k, 0, templates, gram, 3, 1e-3, 1e-10, x);
  check(status == KDEY_BAD_ARGUMENT, "an empty bag: status %d", status);
}

void check_programs(void) {
  const int64_t k = kClasses;
  double* templates = draw_posteriors(kRows, k);
  for (int64_t i = 0; i < k; ++i) templates[i * k + i] += 1;
  double *gram = gram_of(templates, kRows, k), *linear = doubles(kPrograms * k);
  for (int64_t p = 0; p < kPrograms * k; ++p) linear[p] = draw_normal();
  double* grams = doubles(kPrograms * k * k);
  for (int64_t p = 0; p < kPrograms * k * k; ++p) grams[p] = gram[p % (k * k)];
  for (int64_t simplex = 0; simplex < 2; ++simplex) {
    solve(gram, 0, linear, simplex);
    solve(grams, k * k, linear, simplex);
  }
  check_least_squares(templates, gram);
  check_one_bag();
  int64_t steps = 0;
  double x = 0;
  const int32_t status =
      CALL(kdey_solve_programs)(gram, 0, linear, NULL, 1, 0, 1, 3, 1, &x, &steps);
  check(status == KDEY_BAD_ARGUMENT, "no classes: status %d", status);
}
