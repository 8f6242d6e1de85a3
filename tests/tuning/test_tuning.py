"""What a choice tells: frame, sentence, plot."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import kdey
from kdey.plots import TuningDisplay
from kdey.tuning import Tuning

from .cases import posteriors


@pytest.fixture(scope="module")
def fitted() -> kdey.KDEyML:
    return kdey.KDEyML(tune_for="rae", tune_bag_size=70).fit_posteriors(*posteriors(3, 150))


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_frame_has_one_row_per_trial(fitted: kdey.KDEyML, backend: str) -> None:
    frame = fitted.tuning_.to_frame(backend)
    assert list(frame.columns) == ["setting", "bandwidth", "rae", "standard_error", "weight"]
    assert len(frame) == len(fitted.tuning_.trials)
    assert sum(frame["weight"]) == pytest.approx(1.0)


def test_summary_names_the_choice(fitted: kdey.KDEyML) -> None:
    tuning = fitted.tuning_
    told = tuning.summary()
    assert "relative absolute error" in told
    assert f"{tuning.n_bags} bags of 70" in told
    for member in tuning.members:
        assert f"{member.value:.3g} [{member.setting}]" in told
    single = kdey.KDEyML(kernel="gaussian").fit_posteriors(*posteriors(3, 150)).tuning_
    assert f"Chosen: bandwidth {single.best.value:.3g} [gaussian]." in single.summary()


def test_tuning_survives_pickling(fitted: kdey.KDEyML) -> None:
    assert pickle.loads(pickle.dumps(fitted)).tuning_ == fitted.tuning_


def test_display_draws_every_setting(fitted: kdey.KDEyML) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    display = TuningDisplay.from_estimator(fitted)
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert len(labels) == 5
    assert sum("%" in label for label in labels) == len(fitted.tuning_.members)
    again = TuningDisplay.from_tuning(fitted.tuning_, ax=display.ax_)
    assert again.figure_ is display.figure_
    plt.close(display.figure_)


def test_display_needs_a_choice() -> None:
    q = kdey.KDEyML(bandwidth=0.1).fit_posteriors(*posteriors(3, 90))
    with pytest.raises(ValueError, match="has chosen nothing"):
        TuningDisplay.from_estimator(q)


def test_baseline_is_the_error_of_the_uniform_answer() -> None:
    q = kdey.KDEyML().fit_posteriors(*posteriors(2, 400))
    tuning: Tuning = q.tuning_
    # |a - 1/2| for uniform a has mean 1/4.
    assert tuning.baseline == pytest.approx(0.25, abs=0.03)
    assert np.isfinite([t.score for t in tuning.trials]).all()
