// Samplers: counts that add up, draws on the simplex, and means that are known.
#include <math.h>
#include <string.h>

#include "core.h"

enum { kClasses = 3, kRows = 40, kChains = 2, kSweeps = 2000, kGroups = 5, kParents = 2 };

struct chains {
  double current[kChains * kClasses], prevalence[kChains * kSweeps * kClasses];
  double counts[kChains * kSweeps * kClasses];
  uint64_t states[kChains * 4];
};

static struct chains* sample(const double* rows, const double* weights, const double* prior,
                             int64_t threads) {
  struct chains* c = allocate(1, sizeof(struct chains));
  for (int p = 0; p < kChains * kClasses; ++p) c->current[p] = 1.0 / kClasses;
  for (int p = 0; p < kChains * 4; ++p) c->states[p] = 17 + (uint64_t)p;
  const int32_t status = CALL(kdey_gibbs)(rows, weights, kRows, kClasses, prior, kChains, kSweeps,
                                          c->current, c->states, threads, c->prevalence, c->counts);
  check(status == KDEY_OK, "kdey_gibbs: status %d", status);
  return c;
}

// Where every row belongs to one class for certain, the prevalence is a draw of a Dirichlet
// distribution with known parameters.
static void check_known_classes(void) {
  const int64_t numbers[kClasses] = {20, 12, 8};
  const double prior[kClasses] = {1, 2, 0.5};
  double* rows = doubles(kRows * kClasses);
  for (int64_t j = 0; j < kRows; ++j) rows[j * kClasses + (j < 20 ? 0 : j < 32 ? 1 : 2)] = 0.7;
  const struct chains *c = sample(rows, NULL, prior, 1), *other = sample(rows, NULL, prior, 2);
  check(!memcmp(c, other, sizeof(*c)), "two threads give other draws than one");
  double means[kClasses] = {0};
  for (int64_t s = 0; s < kChains * kSweeps; ++s) {
    check_simplex(c->prevalence + s * kClasses, kClasses, "draw of a prevalence");
    for (int i = 0; i < kClasses; ++i) {
      means[i] += c->prevalence[s * kClasses + i] / (kChains * kSweeps);
      check(c->counts[s * kClasses + i] == (double)numbers[i], "count of a certain class");
    }
  }
  for (int i = 0; i < kClasses; ++i) {
    const double wanted = ((double)numbers[i] + prior[i]) / (kRows + 3.5);
    const double deviation = sqrt(wanted * (1 - wanted) / (kRows + 4.5) / (kChains * kSweeps));
    check(fabs(means[i] - wanted) < 6 * deviation, "mean of draws %g, not %g", means[i], wanted);
  }
}

static void check_weights(void) {
  const double prior[kClasses] = {1, 1, 1}, *rows = draw_rows(kRows, kClasses);
  double *weights = doubles(kRows), total = 0;
  for (int j = 0; j < kRows; ++j) total += weights[j] = 0.5 + draw_unit();
  const struct chains* c = sample(rows, weights, prior, 1);
  for (int64_t s = 0; s < kChains * kSweeps; s += 100) {
    const double* counts = c->counts + s * kClasses;
    check_close(counts[0] + counts[1] + counts[2], total, 1e-12, "weighted counts");
  }
}

static void check_hierarchy(void) {
  const double *rows = draw_rows(kRows, kClasses), scales[2] = {10, 10};
  const int64_t offsets[kGroups + 1] = {0, 4, 4, 15, 30, kRows}, parents[kGroups] = {0, 0, 1, 1, 1};
  double prevalences[kGroups * kClasses], means[kParents * kClasses], top[kClasses];
  double concentrations[2] = {5, 5}, out_concentrations[2 * 30];
  uint64_t state[4] = {1, 2, 3, 4};
  int64_t counts[kGroups * kClasses];
  for (int p = 0; p < kGroups * kClasses; ++p) prevalences[p] = 1.0 / kClasses;
  for (int p = 0; p < kParents * kClasses; ++p) means[p] = 1.0 / kClasses;
  for (int i = 0; i < kClasses; ++i) top[i] = 1.0 / kClasses;
  int32_t status = CALL(kdey_hierarchy)(rows, kRows, kClasses, offsets, kGroups, parents, kParents,
                                        scales, 30, prevalences, means, top, concentrations, state,
                                        counts, out_concentrations);
  check(status == KDEY_OK, "kdey_hierarchy: status %d", status);
  for (int g = 0; g < kGroups; ++g) {
    const int64_t* c = counts + g * kClasses;
    check(c[0] + c[1] + c[2] == offsets[g + 1] - offsets[g], "counts of group %d", g);
    check_simplex(prevalences + g * kClasses, kClasses, "prevalence of a group");
  }
  for (int p = 0; p < kParents; ++p)
    check_simplex(means + p * kClasses, kClasses, "mean of a parent");
  check_simplex(top, kClasses, "mean of the means");
  for (int s = 0; s < 60; ++s)
    check(out_concentrations[s] > 0, "concentration of %g", out_concentrations[s]);
  check(concentrations[0] == out_concentrations[58], "the last concentration is another");
  memset(state, 0, sizeof(state));
  status = CALL(kdey_hierarchy)(rows, kRows, kClasses, offsets, kGroups, parents, kParents, scales,
                                1, prevalences, means, top, concentrations, state, counts,
                                out_concentrations);
  check(status == KDEY_BAD_ARGUMENT, "a generator that does not move: status %d", status);
}

void check_draws(void) {
  check_known_classes();
  check_weights();
  check_hierarchy();
}
