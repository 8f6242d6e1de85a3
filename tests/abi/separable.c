// Mixtures and divergences: objective and gap against plain loops, and small gaps.
#include <math.h>
#include <string.h>

#include "core.h"

enum { kClasses = 5, kBags = 4, kPool = 90, kPoints = 37, kLosses = 7, kMostIterations = 200 };
static const double kTolerance = 1e-8;

struct answer {
  double x[kBags * kClasses], objective[kBags], gap[kBags];
  int64_t n_iter[kBags];
};

static double dot(const double* a, const double* b) {
  double sum = 0;
  for (int i = 0; i < kClasses; ++i) sum += a[i] * b[i];
  return sum;
}

static void check_answer(const struct answer* found, int64_t b, double objective,
                         const double* gradient, const char* what) {
  const double* x = found->x + b * kClasses;
  check_simplex(x, kClasses, what);
  check_close(found->objective[b], objective, 1e-11, what);
  check_close(found->gap[b], frank_wolfe_gap(x, gradient, kClasses), 1e-10, what);
  check(found->gap[b] >= 0 && found->gap[b] <= kTolerance, "%s: a gap of %g", what, found->gap[b]);
  check(found->n_iter[b] <= kMostIterations, "%s: too many iterations", what);
}

struct pool {
  double *rows, *log_scales, *weights;
  int64_t *indices, *offsets;
};

static struct pool make_pool(void) {
  struct pool p = {.rows = draw_rows(kPool, kClasses),
                   .log_scales = doubles(kPool),
                   .weights = doubles(3 * kPool),
                   .indices = integers(3 * kPool),
                   .offsets = integers(kBags + 1)};
  for (int64_t j = 0; j < kPool; ++j) {
    double top = 0, *row = p.rows + j * kClasses;
    for (int i = 0; i < kClasses; ++i) top = row[i] > top ? row[i] : top;
    for (int i = 0; i < kClasses; ++i) row[i] /= top;
    p.log_scales[j] = log(top);
  }
  for (int64_t j = 0; j < 3 * kPool; ++j) {
    p.indices[j] = draw_below(kPool);
    p.weights[j] = draw_unit() + 0.1;
  }
  for (int64_t b = 1; b <= kBags; ++b) p.offsets[b] = p.offsets[b - 1] + 3 + 20 * (b - 1);
  return p;
}

static struct answer solve_mixture(const struct pool* p, const double* weights, int64_t threads) {
  struct answer found = {0};
  const int32_t status = CALL(kdey_solve_mixture)(
      p->rows, p->log_scales, kPool, kClasses, p->indices, p->offsets, weights, kBags, NULL,
      kTolerance, kMostIterations, threads, found.x, found.objective, found.gap, found.n_iter);
  check(status == KDEY_OK, "kdey_solve_mixture: status %d", status);
  return found;
}

static void check_mixture(const struct pool* p, const double* weights) {
  const struct answer found = solve_mixture(p, weights, 1), other = solve_mixture(p, weights, 3);
  check(!memcmp(&found, &other, sizeof(found)), "three threads give other mixtures than one");
  for (int64_t b = 0; b < kBags; ++b) {
    double total = 0, value = 0, gradient[kClasses] = {0};
    for (int64_t j = p->offsets[b]; j < p->offsets[b + 1]; ++j) {
      const double w = weights ? weights[j] : 1, *row = p->rows + p->indices[j] * kClasses;
      const double mixture = dot(row, found.x + b * kClasses);
      total += w;
      value -= w * (log(mixture) + p->log_scales[p->indices[j]]);
      for (int i = 0; i < kClasses; ++i) gradient[i] -= w * row[i] / mixture;
    }
    for (int i = 0; i < kClasses; ++i) gradient[i] /= total;
    check_answer(&found, b, value / total, gradient, weights ? "weighted mixture" : "mixture");
  }
}

// The losses in the order of their codes, for positive p and q, and their derivatives in p.
static double loss_value(int64_t loss, double p, double q) {
  const double topsoe = p * log(2 * p / (p + q)) + q * log(2 * q / (p + q));
  switch (loss) {
    case 0: return -log(p);
    case 1: return pow(sqrt(p) - sqrt(q), 2);
    case 2: return topsoe;
    case 3: return topsoe / 2;
    case 4: return q * log(q / p) - q + p;
    case 5: return p * log(p / q) - p + q;
    default: return (p - q) * (p - q) / (p + q);
  }
}

static double loss_slope(int64_t loss, double p, double q) {
  switch (loss) {
    case 0: return -1 / p;
    case 1: return 1 - sqrt(q / p);
    case 2: return log(2 * p / (p + q));
    case 3: return log(2 * p / (p + q)) / 2;
    case 4: return 1 - q / p;
    case 5: return log(p / q);
    default: return (p - q) * (p + 3 * q) / ((p + q) * (p + q));
  }
}

static void check_divergence(int64_t loss) {
  static const char* names[kLosses] = {"negative log",
                                       "Hellinger",
                                       "Topsoe",
                                       "Jensen-Shannon",
                                       "Kullback-Leibler",
                                       "reverse Kullback-Leibler",
                                       "chi2"};
  const double *templates = draw_rows(kPoints, kClasses), *targets = draw_rows(kBags, kPoints);
  double* reference = doubles(kPoints);
  for (int j = 0; j < kPoints; ++j) reference[j] = kPoints * (0.5 + draw_unit());
  struct answer found = {0};
  const int32_t status = CALL(kdey_solve_divergence)(
      loss, templates, targets, reference, kBags, kPoints, kClasses, NULL, kTolerance,
      kMostIterations, 2, found.x, found.objective, found.gap, found.n_iter);
  check(status == KDEY_OK, "kdey_solve_divergence: status %d", status);
  for (int64_t b = 0; b < kBags; ++b) {
    double value = 0, gradient[kClasses] = {0};
    for (int j = 0; j < kPoints; ++j) {
      const double *row = templates + j * kClasses, q = targets[b * kPoints + j];
      const double p = dot(row, found.x + b * kClasses);
      value += loss_value(loss, p, q) / reference[j];
      for (int i = 0; i < kClasses; ++i)
        gradient[i] += loss_slope(loss, p, q) * row[i] / reference[j];
    }
    check_answer(&found, b, value, gradient, names[loss]);
  }
}

void check_separable(void) {
  const struct pool p = make_pool();
  check_mixture(&p, NULL);
  check_mixture(&p, p.weights);
  for (int64_t loss = 0; loss < kLosses; ++loss) check_divergence(loss);
  struct answer found;
  const int32_t status =
      CALL(kdey_solve_divergence)(kLosses, p.rows, p.rows, p.rows, 1, 1, kClasses, NULL, kTolerance,
                                  1, 1, found.x, found.objective, found.gap, found.n_iter);
  check(status == KDEY_BAD_ARGUMENT, "a loss that does not exist: status %d", status);
}
