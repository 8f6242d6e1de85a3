"""Model files, reports and tables by group: hostile bytes, texts and frames."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given, strategies as st

import kdey

from . import strategies as some
from .outcomes import Refused, answer, refused
from .profiles import fuzzed

Y = np.arange(40) % 2
P = np.random.default_rng(0).dirichlet([1.0, 1.0], 40) / 2 + np.eye(2)[Y] / 2
NAMES = np.array(["<script>x</script>", "ä & ö"])
FITTED = kdey.PACC().fit_posteriors(P, NAMES[Y])
ESTIMATE = FITTED.estimate_posteriors(P[:20])


@fuzzed(60)
@given(data=st.data())
def test_mutated_model_files_are_refused_or_load(data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.kdey"
        kdey.save(FITTED, path)
        whole = bytearray(path.read_bytes())
        flavour = data.draw(st.integers(0, 3))
        if flavour == 0:
            whole = whole[: data.draw(st.integers(0, len(whole)))]
        elif flavour == 1:
            whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
        elif flavour == 2:
            whole = bytearray(data.draw(st.binary(max_size=200)))
        else:
            at = data.draw(st.integers(0, len(whole)))
            whole[at:at] = data.draw(st.binary(min_size=1, max_size=20))
        path.write_bytes(bytes(whole))
        try:
            loaded = answer(lambda: kdey.load(path), "m.kdey")
        except Refused:
            return
        np.testing.assert_array_equal(loaded.aggregate(P[:5]), FITTED.aggregate(P[:5]))


@fuzzed(25)
@given(odd=some.ODD)
def test_odd_paths_and_objects(odd: Any) -> None:
    if isinstance(odd, str | bytes) or (isinstance(odd, int) and odd in (0, 1, 2)):
        return  # a good name of a file, or a number of an open one
    assert refused(lambda: kdey.load(odd), "path", "str", "PathLike")
    assert refused(lambda: kdey.save(FITTED, odd), "path", "str", "PathLike")
    with tempfile.TemporaryDirectory() as folder:
        assert refused(lambda: kdey.save(odd, Path(folder) / "m"), "quantifier", "saved", "save")


@fuzzed(12)
@given(data=st.data())
def test_reports_escape_what_they_show(data: Any) -> None:
    title = data.draw(st.text(max_size=20) | st.just("<img src=x onerror=alert(1)>"))
    truth = data.draw(st.none() | st.just([0.5, 0.5]) | some.ODD)
    try:
        made = answer(
            lambda: kdey.make_report(ESTIMATE, quantifier=FITTED, title=title, truth=truth),
            *("truth", "title"),
        )
    except Refused:
        return
    assert isinstance(made, kdey.report.Report)
    with tempfile.TemporaryDirectory() as folder:
        path = answer(
            lambda: kdey.write_report(Path(folder) / "r.html", ESTIMATE, title=title, truth=truth)
        )
        page = path.read_text(encoding="utf-8")
    assert "<script>x</script>" not in page
    assert "<img src=x" not in page
    assert refused(lambda: kdey.make_report(data.draw(some.ODD)), "estimate", "report", "keys")


@fuzzed(25)
@given(data=st.data())
def test_groups_of_frames(data: Any) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    n = data.draw(st.integers(1, 12))
    columns = data.draw(st.permutations(some.ODD_COLUMNS))[:3]
    frame = pd.DataFrame(rng.dirichlet([1, 1], n), columns=columns[:2])
    frame[columns[2]] = data.draw(
        st.lists(
            st.sampled_from(["a", "b", None]) | st.sampled_from(["", "ä"]), min_size=n, max_size=n
        )
    )
    if data.draw(st.booleans()):
        frame.iloc[0, 0] = data.draw(st.sampled_from([np.nan, np.inf, -1.0, 2.0]))
    by = data.draw(st.just(columns[2]) | some.ODD)
    said = ("by", "column", "score", "posteriors", "group", "row", "sum", columns[0], columns[1])
    try:
        made = answer(
            lambda: kdey.predict_groups(FITTED, frame, by, scores=list(columns[:2])).to_frame(),
            *said,
        )
    except Refused:
        return
    shares = [c for c in made.columns if c in ("prevalence", "estimate")]
    assert len(made) >= 1
    for name in shares:
        values = made[name].dropna()
        assert values.between(0, 1).all()


@fuzzed(25)
@given(data=st.data())
def test_comparisons_of_groups(data: Any) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    n = data.draw(st.integers(1, 12))
    frame = pd.DataFrame(rng.dirichlet([1, 1], n), columns=["p", "q"])
    frame["key"] = data.draw(
        st.lists(st.sampled_from(["a", "b", "", "ä", None]), min_size=n, max_size=n)
    )
    against = data.draw(
        st.sampled_from(["previous", "rest", {"key": "a"}, {"key": None}, {"other": 1}]) | some.ODD
    )
    correction = data.draw(st.sampled_from(["holm", "fdr", None]) | some.ODD)
    try:
        made = answer(
            lambda: kdey.compare_groups(
                FITTED, frame, "key", scores=["p", "q"], against=against, correction=correction
            ).to_frame(),
            *("against", "correction", "group"),
        )
    except Refused:
        return
    known = made.dropna(subset="difference")
    assert known.difference.between(-1, 1).all()
    assert known.p_value.between(0, 1).all()
    assert (known.adjusted_p_value >= known.p_value - 1e-12).all()
    assert (known.ratio_low <= known.ratio_high).all()
