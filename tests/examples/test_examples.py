"""The example scripts run, draw one figure each, and show what their text says they show."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib", reason="extra plot is not installed")
pytest.importorskip("pandas", reason="the examples need pandas")
pytest.importorskip("mpltern")

from .method_claims import METHOD_CLAIMS  # noqa: E402

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("plot_*.py"))
if not SCRIPTS:
    pytest.skip("examples/ is not part of this tree", allow_module_level=True)


def sentiment(found: dict[str, Any]) -> None:
    rows = found["rows"]
    true = found["negative"]
    within = (rows["low"].to_numpy() <= true) & (true <= rows["high"].to_numpy())
    assert within.mean() >= 0.9
    counted = rows["classify_and_count"].to_numpy()
    assert (counted[:13] > true[:13]).all()
    assert counted[13] < true[13] - 0.05


def causes(found: dict[str, Any]) -> None:
    table, truth = found["by_region"], found["causes"]
    regions = found["at_home"]["region"].to_numpy()
    assert (
        table["status"] == "no problem found"
    ).mean() >= 0.8  # a region may be flagged by chance
    true = np.array(
        [
            np.mean(truth[regions == r] == c)
            for r, c in zip(table["region"], table["class"], strict=True)
        ]
    )
    assert ((table["low"] <= true) & (true <= table["high"])).mean() >= 0.9
    coast = table[(table["region"] == "coast") & (table["class"] == "malaria")].iloc[0]
    assert coast["training_prevalence"] < coast["classify_and_count"] < coast["low"]


def plankton(found: dict[str, Any]) -> None:
    may, august = found["checks"]["May"], found["checks"]["August"]
    assert not may.rejected
    assert august.rejected
    assert august.unknown_share <= 0.1
    assert found["found"] > 0.4  # ten per cent by chance
    estimate, true = found["estimate"], found["true"]
    assert ((estimate.low <= true) & (true <= estimate.high)).mean() >= 0.9


def judge(found: dict[str, Any]) -> None:
    wrong, truth = found["wrong"], found["new"]
    assert (found["low"] <= truth[wrong]).all()
    assert (truth[wrong] <= found["high"]).all()
    widths = found["high"] - found["low"]
    assert (np.diff(widths) < 0).all()
    assert found["counted"] < found["low"][2]
    assert found["naive"].high[wrong] - found["naive"].low[wrong] < widths[2] / 3


def seroprevalence(found: dict[str, Any]) -> None:
    low, high = found["low"], found["high"]
    assert low.min() == 0.0
    assert (low[found["counts"] <= 40] < 1e-6).all()
    assert (low[found["counts"] >= 60] > 0.0).all()
    assert (np.diff(high) > 0).all()
    assert found["textbook"].min() < 0.0


def two_weeks(found: dict[str, Any]) -> None:
    change, (first, second, _) = found["change"], found["estimates"]
    overlap = (first.low <= second.high) & (second.low <= first.high)
    assert overlap.all()
    clear = (change.low > 0) | (change.high < 0)
    assert clear.tolist() == [True, False, False, False, True]
    assert found["check"].rejected  # that of the third week, the last


def first_answer(found: dict[str, Any]) -> None:
    estimate, truth = found["estimate"], found["truth"]
    assert ((estimate.low <= truth) & (truth <= estimate.high)).all()
    own, naive = (np.abs(x - truth) for x in (estimate.estimate, estimate.classify_and_count))
    assert naive.mean() > 2 * own.mean()


def case_study(found: dict[str, Any]) -> None:
    true = np.array(list(found["true"].values()))
    plain, table = found["plain"], found["table"]
    assert found["wrongly_closed"] == {
        "counting": ["B", "E"],
        "kdey": ["E"],
        "kdey with 100 labels": [],
    }
    assert not found["decisions"]["kdey with 100 labels"].any()
    assert ((table["low"] <= true) & (true <= table["high"])).all()
    assert plain.loc["E", "high"] < found["true"]["E"]
    assert (plain["status"] == "poor fit").sum() >= 3  # some lie close to the level
    assert table["label_shift_p_value"].lt(0.05).tolist() == [False] * 4 + [True] * 2
    labels = table["labels_high"] - table["labels_low"]
    assert (table["high"] - table["low"] < labels).drop("E").all()


CLAIMS: dict[str, Callable[[dict[str, Any]], None]] = {
    "plot_case_study_news": case_study,
    "plot_causes_of_death": causes,
    "plot_first_answer": first_answer,
    "plot_llm_judge": judge,
    "plot_plankton_many_classes": plankton,
    "plot_sentiment_by_week": sentiment,
    "plot_seroprevalence": seroprevalence,
    "plot_two_weeks": two_weeks,
    **METHOD_CLAIMS,
}


def test_every_script_has_its_claims_and_its_line_in_the_list() -> None:
    assert [script.stem for script in SCRIPTS] == sorted(CLAIMS)
    listed = re.findall(r"`(plot_\w+)\.py`", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(CLAIMS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_text_of_a_gallery_script(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    title, line, empty = text.splitlines()[1:4]
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert empty == ""
    assert "made up" in text
    assert "# What to read off" in text
    assert text.rstrip().endswith("plt.show()")


# Older SciPy says of its SLSQP, which one script looks at, that it left the bounds.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs_and_holds_its_claims(
    script: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    plt.close("all")
    monkeypatch.setattr(plt, "show", lambda: None)
    try:
        found = runpy.run_path(str(script))
        assert len(plt.get_fignums()) == 1
        CLAIMS[script.stem](found)
    finally:
        plt.close("all")
    assert list(tmp_path.iterdir()) == []
