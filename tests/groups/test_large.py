"""Groups that are not held at once: the same numbers, piece by piece."""

from __future__ import annotations

import numpy as np
import pytest

from kdey import ACC, EMQ, PCC, KDEyML
from kdey.bags import as_bags
from kdey.groups import GroupSettings, GroupStream, estimate_groups
from kdey.groups import estimate as module
from kdey.groups.answers import AnswerSheet
from kdey.groups.checks import GroupChecks
from kdey.options import Options
from tests.groups.sums.cases import make_case

BOOTSTRAP = Options(method="bootstrap", n_replicates=20)
CASE = make_case(3, 7, seed=4, largest=900)


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make groups of 200 instances large; return the sizes that went by sums."""
    seen: list[int] = []
    plain = module.estimate_large

    def watched(quantifier, points, own, settings):
        seen.append(len(own))
        return plain(quantifier, points, own, settings)

    monkeypatch.setattr(module, "LARGE", 200)
    monkeypatch.setattr(module, "PIECE", 64)
    monkeypatch.setattr("kdey.groups.estimate.RUN", 150)
    monkeypatch.setattr("kdey.groups.estimate.estimate_large", watched)
    return seen


@pytest.mark.parametrize("kept", [1 << 29, 0])
@pytest.mark.parametrize("q", [KDEyML(bandwidth=0.1), EMQ(), ACC()], ids=["KDEyML", "EMQ", "ACC"])
def test_large_groups_by_sums(
    q, kept: int, small_memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    q.fit_posteriors(CASE.training, CASE.labels)
    monkeypatch.setattr(module, "KEPT", kept)
    made = estimate_groups(q, CASE.points, CASE.codes, CASE.n_groups, GroupSettings())
    sizes = np.bincount(CASE.codes)
    assert sorted(small_memory) == sorted(sizes[sizes > 200].tolist())
    expected = q.estimate_posteriors(CASE.points, CASE.bags)
    np.testing.assert_allclose(made.estimate, expected.estimate, atol=1e-6)
    np.testing.assert_allclose(made.low, expected.low, atol=1e-6)
    np.testing.assert_allclose(made.high, expected.high, atol=1e-6)
    np.testing.assert_array_equal(made.sizes, sizes)
    assert np.isfinite(made.classify_and_count).all()
    whole = GroupChecks.start(q, GroupSettings(), sheet := AnswerSheet(q, CASE.n_groups), False)
    whole.check(np.arange(CASE.n_groups), CASE.points, as_bags(CASE.bags, len(CASE.points)), sizes)
    np.testing.assert_array_equal(made.fit_p_value, sheet.fit_p_values)


def test_a_stream_on_disk_goes_the_same_way(small_memory: list[int]) -> None:
    q = KDEyML(bandwidth=0.1).fit_posteriors(CASE.training, CASE.labels)
    stream = GroupStream(memory=1_000)
    for start in range(0, len(CASE.codes), 300):
        part = slice(start, start + 300)
        codes = CASE.codes[part].astype(np.int32)
        stream.add(CASE.points[part], codes, np.ones(len(codes), dtype=bool))
    reported: list[int] = []
    made = stream.answers(q, CASE.n_groups, GroupSettings(), reported.append)
    assert small_memory
    assert sum(reported) == len(CASE.codes)
    expected = q.estimate_posteriors(CASE.points, CASE.bags)
    np.testing.assert_allclose(made.estimate, expected.estimate, atol=1e-6)


@pytest.mark.parametrize(
    ("q", "settings"),
    [
        (PCC(), GroupSettings()),
        (
            KDEyML(bandwidth=0.1),
            GroupSettings(Options(method="bootstrap", n_replicates=20)),
        ),
    ],
    ids=["no analytic limits", "bootstrap"],
)
def test_what_needs_the_whole_group_gets_it(q, settings, small_memory: list[int]) -> None:
    q.fit_posteriors(CASE.training, CASE.labels)
    estimate_groups(q, CASE.points, CASE.codes, CASE.n_groups, settings)
    assert small_memory == []
