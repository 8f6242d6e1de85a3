"""The classifier stage of a pool: failures, limits, caches, frozen classifiers."""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import ThreadpoolController, threadpool_limits

import kdey
from kdey import Quantifier
from kdey.native import run_in_threads
from kdey.stacking import MemberWarning
from kdey.stacking.pooled_classifier import pool_of


def data(n: int = 240, k: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return rng.normal(size=(n, k)) + 2.0 * np.eye(k)[y], y


class Failing(ClassifierMixin, BaseEstimator):
    """A classifier whose fit raises."""

    def fit(self, X: Any, y: Any) -> Failing:
        raise RuntimeError("no licence\nsecond line")

    def predict_proba(self, X: Any) -> np.ndarray:
        raise NotImplementedError


class Slow(GaussianNB):
    """A classifier that takes its time."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Slow:
        time.sleep(0.3)
        super().fit(X, y, sample_weight)
        return self


class Counted(GaussianNB):
    """A classifier that counts its fits in a file."""

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.path = path

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Counted:
        with Path(self.path).open("a") as file:
            file.write("fit\n")
        super().fit(X, y, sample_weight)
        return self


def test_a_member_that_fails_is_left_out_and_named() -> None:
    X, y = data()
    with pytest.warns(MemberWarning, match=r"broken.*RuntimeError: no licence"):
        q = Quantifier({"broken": Failing(), "bayes": GaussianNB()}, effort="low").fit(X, y)
    assert {member.classifier for member in q.stack_.members} == {"bayes"}
    assert "broken" in q.stack_.left_out
    assert "Left out: broken" in q.explain()
    alone = Quantifier(GaussianNB(), effort="low").fit(X, y)
    assert q.predict(X) == pytest.approx(alone.predict(X))


def test_if_all_fail_the_error_is_raised() -> None:
    X, y = data()
    q = Quantifier(Failing(), effort="low")
    with pytest.warns(MemberWarning), pytest.raises(RuntimeError, match="no licence"):
        q.fit(X, y)
    assert not hasattr(q, "classes_")


def test_a_limit_on_time_drops_the_last_classifiers() -> None:
    X, y = data()
    classifiers = {"bayes": GaussianNB(), "slow": Slow()}
    with pytest.warns(MemberWarning, match=r"slow is left out.*time_limit"):
        q = Quantifier(classifiers, effort="low", time_limit=0.5).fit(X, y)
    assert {member.classifier for member in q.stack_.members} == {"bayes"}
    generous = Quantifier(classifiers, effort="low", time_limit=600).fit(X, y)
    assert "slow" not in generous.stack_.left_out


def test_the_first_classifier_is_fitted_whatever_the_limit() -> None:
    X, y = data()
    q = Quantifier({"slow": Slow()}, effort="low", time_limit=1e-6).fit(X, y)
    assert q.stack_.members[0].classifier == "slow"


def test_a_limit_on_size_drops_the_largest_classifier() -> None:
    X, y = data()
    classifiers = {"bayes": GaussianNB(), "trees": ExtraTreesClassifier(300, random_state=0)}
    with pytest.warns(MemberWarning, match=r"trees is left out.*size_limit"):
        q = Quantifier(classifiers, effort="low", size_limit=300_000).fit(X, y)
    assert set(q.classifier_.models_) == {"bayes"}
    with pytest.warns(MemberWarning, match="more than the size_limit"):
        Quantifier(GaussianNB(), effort="low", size_limit=10).fit(X, y)


def test_what_a_limit_will_drop_is_fitted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kdey.stacking, "SMALL_TABLE", 100)
    X, y = data()
    fits = tmp_path / "fits"

    class Large(Counted):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            self.ballast_ = np.random.default_rng(0).bytes(30_000)
            return super().fit(X, y, sample_weight)

    monkeypatch.setattr(kdey.stacking, "model_bytes", _pickled)
    classifiers = {"bayes": GaussianNB(), "large": Large(str(fits))}
    with pytest.warns(MemberWarning, match=r"large is left out.*size_limit"):
        q = Quantifier(classifiers, effort="low", size_limit=80_000).fit(X, y)  # three folds
    assert len(fits.read_text().splitlines()) == 1
    assert set(q.classifier_.models_) == {"bayes"}
    Quantifier(classifiers, effort="low", size_limit=200_000).fit(X, y)
    assert len(fits.read_text().splitlines()) == 1 + 3


def test_forests_of_folds_are_judged_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    held, judged = [], []
    real = kdey.stacking.cross_fit

    def watched(*given: Any, judge: Any, **asked: Any) -> Any:
        def watch(model: Any, seconds: float) -> None:
            judged.append(model)
            judge(model, seconds)

        held.append(real(*given, judge=judge and watch, **asked))
        return held[-1]

    monkeypatch.setattr(kdey.stacking, "cross_fit", watched)
    Quantifier(effort="low", time_limit=600, random_state=0).fit(*data())
    assert [fit.fold_models and len(fit.fold_models) for fit in held] == [3, None, 3]
    assert [type(model) for model in judged[:1]] == [ExtraTreesClassifier]


def _pickled(models: Any) -> int:
    if isinstance(models, list | tuple):
        return sum(map(_pickled, models))
    return len(getattr(models, "ballast_", b""))


def test_a_fit_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data()
    fits = tmp_path / "fits"
    classifiers = {"counted": Counted(str(fits)), "bayes": GaussianNB()}

    def stop(*record: Any) -> None:
        raise KeyboardInterrupt

    q = Quantifier(classifiers, effort="low")
    with monkeypatch.context() as patch:
        patch.setattr(kdey.stacking.logger, "info", stop)
        with pytest.raises(KeyboardInterrupt):
            q.fit(X, y, cache=tmp_path / "cache")
    assert not hasattr(q, "classes_")
    n_fits = len(fits.read_text().splitlines())
    again = Quantifier(classifiers, effort="low").fit(X, y, cache=tmp_path / "cache")
    assert len(fits.read_text().splitlines()) == n_fits
    plain = Quantifier(classifiers, effort="low").fit(X, y)
    assert again.predict(X) == pytest.approx(plain.predict(X))


def test_other_data_are_not_taken_from_the_cache(tmp_path: Path) -> None:
    X, y = data()
    q = Quantifier(GaussianNB(), effort="low").fit(X, y, cache=tmp_path)
    other = Quantifier(GaussianNB(), effort="low").fit(X + 1.0, y, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert other.predict(X + 1.0) == pytest.approx(q.predict(X), abs=1e-6)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
@pytest.mark.parametrize("shared", ["folder", "parent", "file", "link"])
def test_a_cache_that_others_can_write_to_is_refused(tmp_path: Path, shared: str) -> None:
    folder = tmp_path / "around" / "cache"
    folder.mkdir(parents=True)
    planted = folder / "planted.fits"
    planted.write_bytes(b"")
    for path in (folder.parent, folder, planted):
        path.chmod(0o700)
    X, y = data()
    Quantifier(GaussianNB(), effort="low").fit(X, y, cache=folder)
    if shared == "link":
        (folder / "link.fits").symlink_to(tmp_path / "elsewhere")
    else:
        {"folder": folder, "parent": folder.parent, "file": planted}[shared].chmod(0o722)
    with pytest.raises(PermissionError, match="can be changed by others"):
        Quantifier(GaussianNB(), effort="low").fit(X, y, cache=folder)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
def test_a_new_cache_is_private_and_may_lie_in_a_sticky_folder(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    X, y = data()
    Quantifier(GaussianNB(), effort="low").fit(X, y, cache=tmp_path / "tmp" / "cache")
    assert (tmp_path / "tmp" / "cache").stat().st_mode & 0o777 == 0o700
    (tmp_path / "tmp").chmod(0o700)


def test_damaged_files_of_the_cache_are_fitted_again(tmp_path: Path) -> None:
    X, y = data()
    q = Quantifier(GaussianNB(), effort="low").fit(X, y, cache=tmp_path)
    for file in tmp_path.iterdir():
        file.write_bytes(b"damaged")
    again = Quantifier(GaussianNB(), effort="low").fit(X, y, cache=tmp_path)
    assert again.predict(X) == pytest.approx(q.predict(X))


def test_finished_classifiers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    X, y = data()
    classifiers = {"linear": LogisticRegression(), "bayes": GaussianNB()}
    with caplog.at_level(logging.INFO, "kdey"):
        Quantifier(classifiers, effort="low").fit(X, y)
    first, last = caplog.messages
    done = r"done after \d+\.\d s"
    assert re.fullmatch(rf"linear: {done} \(1 of 2 classifiers\), about \d+ s left", first)
    assert re.fullmatch(rf"bayes: {done} \(2 of 2 classifiers\)", last)


def test_frozen_classifiers_are_used_as_they_are() -> None:
    X, y = data(600)
    frozen = FrozenEstimator(GaussianNB().fit(X[:200], y[:200]))
    q = Quantifier({"frozen": frozen, "linear": LogisticRegression()}, effort="low")
    q.fit(X[200:], y[200:])
    assert q.classifier_.models_["frozen"] == [frozen]
    assert {member.classifier for member in q.stack_.members} == {"frozen", "linear"}
    alone = Quantifier(frozen, effort="low").fit(X[200:], y[200:])
    assert alone.training_.folds is None
    assert alone.predict(X[:200]).sum() == pytest.approx(1.0)


def test_kernel_members_need_labels() -> None:
    X, y = data(300)
    few = Quantifier(GaussianNB(), effort="low").fit(X[:150], y[:150])
    assert {member.method for member in few.stack_.members} == {"EMQ-BCTS"}
    assert "Left out: KDEy-ML, because kernels need 200 labels" in few.explain()
    many = Quantifier(GaussianNB(), effort="low").fit(X, y)
    assert many.stack_.left_out == {}
    kernels = [kdey.KDEyML(bandwidth=0.1)]
    only = Quantifier(GaussianNB(), methods=kernels, effort="low").fit(X[:150], y[:150])
    assert {member.method for member in only.stack_.members} == {"KDEyML"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("effort", "much"),
        ("time_limit", 0),
        ("size_limit", -1.0),
        ("methods", "EMQ"),
        ("methods", []),
    ],
)
def test_bad_parameters_are_refused_before_any_work(name: str, value: Any) -> None:
    X, y = data()
    with pytest.raises(ValueError, match=name):
        Quantifier(Failing(), **{name: value}).fit(X, y)


class Meeting(GaussianNB):
    """A classifier whose predictions wait until those of another thread have begun."""

    meeting: ClassVar[threading.Barrier | None] = None

    def predict_proba(self, X: Any) -> np.ndarray:
        if self.meeting is not None:
            self.meeting.wait(timeout=100)
        return np.asarray(super().predict_proba(X))


def test_classifiers_of_a_pool_score_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool of a model that was loaded used one thread, whatever n_jobs was set to."""
    X, y = data()
    q = Quantifier({"one": Meeting(), "two": Meeting()}, methods=[kdey.EMQ()], effort="low")
    q.fit(X, y)
    assert {member.classifier for member in q.stack_.members} == {"one", "two"}
    alone = q.predict(X)
    monkeypatch.setattr(Meeting, "meeting", threading.Barrier(2))
    assert q.set_params(n_jobs=2).predict(X) == pytest.approx(alone, abs=1e-12)
    assert pool_of(q.classifier_).n_threads == 2  # type: ignore[union-attr]


def test_an_error_in_a_thread_is_raised() -> None:
    def fail() -> None:
        raise RuntimeError("no licence")

    with pytest.raises(RuntimeError, match="no licence"):
        run_in_threads([fail, fail], 2)


class ThreadCounting(GaussianNB):
    """A classifier that notes how many threads OpenMP would start for it."""

    counts: ClassVar[list[tuple[str, int]]] = []

    def note(self, step: str) -> None:
        found = ThreadpoolController().select(user_api="openmp").info()
        self.counts.append((step, max(library["num_threads"] for library in found)))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ThreadCounting:
        self.note("fit")
        super().fit(X, y, sample_weight)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        self.note("predict")
        return np.asarray(super().predict_proba(X))


@pytest.mark.parametrize(
    ("name", "small", "expected"),
    [("gradient boosting", 10_000, 1), ("gradient boosting", 10, 3), ("my own", 10_000, 3)],
)
def test_small_tables_have_one_thread_of_openmp(
    monkeypatch: pytest.MonkeyPatch, name: str, small: int, expected: int
) -> None:
    # Threads for steps of microseconds wait for each other: where other work has the cores, a fit
    # of boosted trees on 900 rows took minutes. Classifiers of users keep their threads.
    monkeypatch.setattr("kdey.stacking.pooled_classifier.SMALL_TABLE", small)
    monkeypatch.setattr(ThreadCounting, "counts", [])
    X, y = data()
    with threadpool_limits(3, user_api="openmp"):
        q = Quantifier({name: ThreadCounting()}, random_state=0).fit(X, y)
        q.predict(X)
        pool = pool_of(q.classifier_)
        assert pool is not None
        pool.fit(X, y)
    assert {step for step, _ in ThreadCounting.counts} == {"fit", "predict"}
    assert {count for _, count in ThreadCounting.counts} == {expected}
