// Kernel log-sums, of points given at once and of packed references, against plain loops.
#include <math.h>
#include <string.h>

#include "core.h"

// A case; points are float64 here and rounded to float32 for the library where is_double is 0.
struct kernel_case {
  int64_t m, n, dim, k, n_bandwidths;
  int is_double, double_mode, weighted, excluding;
  double *queries, *references, *bandwidths, *weights;
  int64_t *offsets, *exclude;
  const void *passed_queries, *passed_references;
};

static const double kBandwidths[] = {0.02, 0.1, 0.7};

// The points as the library reads them; those of the oracle are then the same numbers.
static const void* rounded(double* points, int64_t count, int is_double) {
  if (is_double) return points;
  float* singles = allocate((size_t)count, sizeof(float));
  for (int64_t p = 0; p < count; ++p) points[p] = singles[p] = (float)points[p];
  return singles;
}

static struct kernel_case make_case(int64_t m, int64_t n, int64_t dim, int64_t k, int flags) {
  struct kernel_case c = {.m = m, .n = n, .dim = dim, .k = k, .n_bandwidths = 3};
  c.is_double = flags & 1, c.double_mode = flags >> 1 & 1;
  c.weighted = flags >> 2 & 1, c.excluding = flags >> 3 & 1;
  c.queries = draw_posteriors(m, dim);
  c.references = draw_posteriors(n, dim);
  c.bandwidths = (double*)kBandwidths;
  c.offsets = integers(k + 1);
  // The second of three classes or more is empty.
  for (int64_t i = 1; i <= k; ++i) c.offsets[i] = k > 2 && i == 2 ? c.offsets[1] : i * n / k;
  if (c.weighted) {
    c.weights = doubles(n);
    for (int64_t r = 0; r < n; ++r) c.weights[r] = draw_below(9) ? exp(draw_normal()) : 0;
  }
  if (c.excluding) {
    c.exclude = integers(m);
    for (int64_t j = 0; j < m; ++j) c.exclude[j] = draw_below(n + 1) - 1;
  }
  // Some queries are references, as when a training set is compared with itself.
  for (int64_t j = 0; j < m; j += 5)
    memcpy(c.queries + j * dim, c.references + j % n * dim, (size_t)dim * sizeof(double));
  c.passed_queries = rounded(c.queries, m * dim, c.is_double);
  c.passed_references = rounded(c.references, n * dim, c.is_double);
  return c;
}

static double exponent(const struct kernel_case* c, double h, int64_t j, int64_t r) {
  double squares = 0;
  for (int64_t d = 0; d < c->dim; ++d) {
    const double difference = c->queries[j * c->dim + d] - c->references[r * c->dim + d];
    squares += difference * difference;
  }
  return (c->weights ? log(c->weights[r]) : 0) - squares / (2 * h * h);
}

static double log_sum(const struct kernel_case* c, double h, int64_t j, int64_t label) {
  double top = -INFINITY, sum = 0;
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t r = c->offsets[label]; r < c->offsets[label + 1]; ++r) {
      if (c->exclude && c->exclude[j] == r) continue;
      const double e = exponent(c, h, j, r);
      if (pass == 0)
        top = e > top ? e : top;
      else if (e > -INFINITY)
        sum += exp(e - top);
    }
  return sum > 0 ? top + log(sum) : -INFINITY;
}

static double highest(const double* row, int64_t k) {
  double top = row[0];
  for (int64_t i = 1; i < k; ++i) top = row[i] > top ? row[i] : top;
  return top;
}

// A row's largest entry must be right, and beside it the share of every class: what is far below
// the largest entry may be any small number.
static void check_row(const double* found, const double* wanted, int64_t k, double tolerance) {
  const double top = highest(found, k), wanted_top = highest(wanted, k);
  check_close(top, wanted_top, tolerance, "largest log-sum of a query");
  if (wanted_top == -INFINITY) return;
  for (int64_t i = 0; i < k; ++i) {
    const double share = exp(found[i] - top), wanted_share = exp(wanted[i] - wanted_top);
    check_close(share, wanted_share, tolerance, "share of a class in a query's sums");
  }
}

static double* sums_at_once(const struct kernel_case* c, int64_t n_threads, int64_t skip) {
  double* out = doubles(c->n_bandwidths * c->m * c->k);
  const int32_t status = CALL(kdey_class_log_sums)(
      c->passed_queries, c->passed_references, c->is_double, c->is_double, c->m, c->n, c->dim,
      c->offsets, c->k, c->bandwidths, c->n_bandwidths, c->weights, c->exclude, c->double_mode,
      n_threads, 0, skip, out);
  check(status == KDEY_OK, "kdey_class_log_sums: status %d", status);
  return out;
}

static double* sums_packed(const struct kernel_case* c, int64_t n_threads) {
  double* out = doubles(c->n_bandwidths * c->m * c->k);
  kdey_references* packed = NULL;
  int32_t status =
      CALL(kdey_pack_references)(c->passed_references, c->is_double, c->n, c->dim, c->offsets, c->k,
                                 c->weights, c->double_mode, n_threads, 0, &packed);
  check(status == KDEY_OK && packed, "kdey_pack_references: status %d", status);
  if (!packed) return out;
  const int64_t bytes = CALL(kdey_packed_bytes)(packed);
  check(bytes > 16 * c->n, "packed references of %lld bytes", (long long)bytes);
  status = CALL(kdey_packed_log_sums)(packed, c->passed_queries, c->is_double, c->m, c->bandwidths,
                                      c->n_bandwidths, c->exclude, n_threads, 1, out);
  check(status == KDEY_OK, "kdey_packed_log_sums: status %d", status);
  CALL(kdey_free_references)(packed);
  return out;
}

static void check_case(const struct kernel_case* c) {
  const double tolerance = c->double_mode ? 1e-9 : 1e-4;
  const double* found = sums_at_once(c, 1, 1);
  double* wanted = doubles(c->k);
  for (int64_t h = 0; h < c->n_bandwidths; ++h)
    for (int64_t j = 0; j < c->m; ++j) {
      for (int64_t i = 0; i < c->k; ++i) wanted[i] = log_sum(c, c->bandwidths[h], j, i);
      check_row(found + (h * c->m + j) * c->k, wanted, c->k, tolerance);
    }
  const size_t size = (size_t)(c->n_bandwidths * c->m * c->k) * sizeof(double);
  check(!memcmp(found, sums_at_once(c, 3, 1), size), "three threads give other sums than one");
  check(!memcmp(found, sums_packed(c, 2), size), "packed references give other sums");
  const double* all = sums_at_once(c, 1, 0);  // no block is skipped
  for (int64_t row = 0; row < c->n_bandwidths * c->m; ++row)
    check_row(all + row * c->k, found + row * c->k, c->k, 1e-6);
}

// Mean kernels of bags at points, against plain loops; instances may be in several bags, or in
// none.
static void check_kernel_means(int64_t dim, const double* weights) {
  enum { kPoints = 11, kPool = 60, kBags = 3, kEntries = 70 };
  const double *points = draw_posteriors(kPoints, dim), *pool = draw_posteriors(kPool, dim);
  const double bandwidth = 0.1, log_floor = -600;
  const int64_t offsets[kBags + 1] = {0, 1, 30, kEntries};
  int64_t indices[kEntries];
  double log_scale[kPoints], out[kBags * kPoints], again[kBags * kPoints];
  for (int i = 0; i < kPoints; ++i) log_scale[i] = -3 * draw_unit();
  for (int j = 0; j < kEntries; ++j) indices[j] = draw_below(kPool);
  int32_t status = CALL(kdey_kernel_means)(points, log_scale, kPoints, pool, kPool, dim, indices,
                                           offsets, weights, kBags, bandwidth, log_floor, 1, out);
  check(status == KDEY_OK, "kdey_kernel_means: status %d", status);
  for (int b = 0; b < kBags; ++b)
    for (int i = 0; i < kPoints; ++i) {
      double sum = 0, total = 0;
      for (int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
        double squares = 0;
        for (int64_t d = 0; d < dim; ++d) {
          const double difference = points[i * dim + d] - pool[indices[j] * dim + d];
          squares += difference * difference;
        }
        const double log_kernel = -squares / (2 * bandwidth * bandwidth) - log_scale[i];
        const double w = weights ? weights[j] : 1;
        sum += w * exp(log_kernel > log_floor ? log_kernel : log_floor);
        total += w;
      }
      check_close(out[b * kPoints + i] * total / sum, 1, 1e-9, "mean kernel of a bag");
    }
  status = CALL(kdey_kernel_means)(points, log_scale, kPoints, pool, kPool, dim, indices, offsets,
                                   weights, kBags, bandwidth, log_floor, 3, again);
  check(status == KDEY_OK && !memcmp(out, again, sizeof(out)), "three threads give other means");
  indices[2] = -1;
  status = CALL(kdey_kernel_means)(points, log_scale, kPoints, pool, kPool, dim, indices, offsets,
                                   weights, kBags, bandwidth, log_floor, 1, out);
  check(status == KDEY_BAD_ARGUMENT, "an index below the pool: status %d", status);
}

void check_kernels(void) {
  // Sizes around those of tiles, batches and groups; dimensions around those of vectors.
  static const int64_t sizes[][4] = {{1, 1, 1, 1},    {7, 40, 2, 2},    {13, 131, 3, 3},
                                     {65, 200, 5, 3}, {30, 333, 16, 4}, {24, 257, 17, 5},
                                     {70, 300, 28, 6}};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s)
    for (int flags = 0; flags < 16; ++flags) {
      const struct kernel_case c =
          make_case(sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3], flags);
      check_case(&c);
    }
  struct kernel_case c = make_case(2, 8, 3, 2, 1);
  double out[12], zero = 0;
  c.bandwidths = &zero, c.n_bandwidths = 1;
  const int32_t status =
      CALL(kdey_class_log_sums)(c.queries, c.references, 1, 1, 2, 8, 3, c.offsets, 2, c.bandwidths,
                                1, NULL, NULL, 0, 1, 0, 1, out);
  check(status == KDEY_BAD_ARGUMENT, "a bandwidth of zero: status %d", status);
  CALL(kdey_free_references)(NULL);
  double weights[70];
  for (int j = 0; j < 70; ++j) weights[j] = exp(draw_normal());
  for (int64_t dim = 1; dim < 30; dim += 9) {
    check_kernel_means(dim, NULL);
    check_kernel_means(dim, weights);
  }
}
