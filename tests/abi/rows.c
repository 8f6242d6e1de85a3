// Passes over rows: checks of posteriors, means of bags, scales.
#include <math.h>

#include "core.h"

enum { kClasses = 4, kPool = 50, kBags = 3 };

static void check_posteriors(void) {
  double* rows = draw_posteriors(kPool, kClasses);
  float* singles = allocate(kPool * kClasses, sizeof(float));
  double out[2] = {1, 1};
  for (int p = 0; p < kPool * kClasses; ++p) singles[p] = (float)rows[p];
  int32_t status = CALL(kdey_check_posteriors)(rows, 1, kPool, kClasses, out);
  check(status == KDEY_OK && out[0] == 0 && out[1] <= 1e-15, "posteriors are refused");
  status = CALL(kdey_check_posteriors)(singles, 0, kPool, kClasses, out);
  check(status == KDEY_OK && out[0] == 0 && out[1] <= 1e-6, "float32 posteriors are refused");
  rows[5] -= 2;
  status = CALL(kdey_check_posteriors)(rows, 1, kPool, kClasses, out);
  check(status == KDEY_OK && out[0] == rows[5], "the lowest entry is %g", out[0]);
  check_close(out[1], 2, 1e-12, "distance of a sum from one");
  rows[9] = NAN;
  status = CALL(kdey_check_posteriors)(rows, 1, kPool, kClasses, out);
  check(status == KDEY_OK && out[1] == INFINITY, "NaN passes for a posterior");
  status = CALL(kdey_check_posteriors)(rows, 1, 0, kClasses, out);
  check(status == KDEY_BAD_ARGUMENT, "no posteriors: status %d", status);
}

static void check_means(const double* weights) {
  const double* rows = draw_rows(kPool, kClasses);
  const int64_t offsets[kBags + 1] = {0, 1, 20, 60};
  int64_t indices[60];
  double means[kBags * kClasses];
  for (int j = 0; j < 60; ++j) indices[j] = draw_below(kPool);
  int32_t status =
      CALL(kdey_bag_means)(rows, kPool, kClasses, indices, offsets, weights, kBags, means);
  check(status == KDEY_OK, "kdey_bag_means: status %d", status);
  for (int b = 0; b < kBags; ++b)
    for (int i = 0; i < kClasses; ++i) {
      double sum = 0, total = 0;
      for (int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
        const double w = weights ? weights[j] : 1;
        sum += w * rows[indices[j] * kClasses + i];
        total += w;
      }
      check_close(means[b * kClasses + i], sum / total, 1e-13, "mean of a bag");
    }
  indices[3] = kPool;
  status = CALL(kdey_bag_means)(rows, kPool, kClasses, indices, offsets, weights, kBags, means);
  check(status == KDEY_BAD_ARGUMENT, "an index outside the pool: status %d", status);
}

static void check_scales(int64_t logs) {
  double *rows = draw_rows(kPool, kClasses), out[kPool * kClasses], log_scales[kPool];
  uint8_t empty[kPool];
  for (int i = 0; i < kClasses; ++i) rows[kClasses + i] = 0;
  if (logs)
    for (int p = 0; p < kPool * kClasses; ++p) rows[p] = log(rows[p]);
  int32_t status = CALL(kdey_scale_rows)(rows, kPool, kClasses, logs, out, log_scales, empty);
  check(status == KDEY_OK, "kdey_scale_rows: status %d", status);
  for (int j = 0; j < kPool; ++j) {
    double top = 0;
    for (int i = 0; i < kClasses; ++i) {
      const double value = logs ? exp(rows[j * kClasses + i]) : rows[j * kClasses + i];
      const double scaled = out[j * kClasses + i];
      top = scaled > top ? scaled : top;
      check_close(scaled * exp(log_scales[j]), value, 1e-13, "scaled row");
    }
    check(empty[j] == (j == 1) && top == (j == 1 ? 0 : 1), "row %d has a top of %g", j, top);
  }
  rows[2] = logs ? INFINITY : -1;
  status = CALL(kdey_scale_rows)(rows, kPool, kClasses, logs, out, log_scales, empty);
  check(status == KDEY_BAD_ARGUMENT, "an entry that is not valid: status %d", status);
}

void check_rows(void) {
  double* weights = doubles(60);
  for (int j = 0; j < 60; ++j) weights[j] = 0.1 + draw_unit();
  check_posteriors();
  check_means(NULL);
  check_means(weights);
  check_scales(0);
  check_scales(1);
}
