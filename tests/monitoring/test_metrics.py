"""The newest period as OpenMetrics text, read by a parser of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from kdey.monitoring import History, MonitorSettings, find_alarms, metrics_text

from .cases import empty, period

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
_PLAIN = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Samples:
    """Return the samples of OpenMetrics text; raises AssertionError where it breaks a rule."""
    assert text.endswith("\n")
    lines = text.removesuffix("\n").split("\n")
    assert lines.pop() == "# EOF"
    samples: Samples = {}
    family, described, finished = "", set[tuple[str, str]](), set[str]()
    for line in lines:
        if line.startswith("# "):
            _, what, name, rest = line.split(" ", 3)
            assert what in ("TYPE", "HELP")
            assert (what, name) not in described
            described.add((what, name))
            if name != family:
                finished.add(family)
                family = name
            assert family not in finished, "the lines of a family must not be interleaved"
            assert what == "HELP" or rest == "gauge"
            continue
        found = _SAMPLE.fullmatch(line)
        assert found is not None, line
        name, labels, value = found.groups()
        assert name == family
        assert ("TYPE", name) in described
        assert len("".join(m[0] for m in _LABEL.finditer(labels or ""))) == len(labels or "")
        pairs = [
            (m[1], re.sub(r"\\.", lambda e: _PLAIN[e[0]], m[2]))
            for m in _LABEL.finditer(labels or "")
        ]
        assert len(dict(pairs)) == len(pairs)
        key = name, frozenset(pairs)
        assert key not in samples
        samples[key] = float(value)
    return samples


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset((label.rstrip("_"), value) for label, value in labels.items())


def test_the_newest_period_with_its_alarms() -> None:
    shares = [[0.5, 0.3, 0.2]] * 10 + [[0.2, 0.3, 0.5]]
    days = [f"2024-01-{day:02d}" for day in range(1, 12)]
    history = empty().with_periods(
        [period(day, share) for day, share in zip(days, shares, strict=True)]
    )
    samples, last = parsed(metrics_text(history)), history.periods[-1]
    for code, label in enumerate(history.labels):
        assert samples[key("kdey_share", class_=label)] == last.estimate[code]
        assert samples[key("kdey_share_low", class_=label)] == last.low[code]
        assert samples[key("kdey_share_high", class_=label)] == last.high[code]
    assert samples[key("kdey_rows")] == last.n
    assert samples[key("kdey_periods")] == 11
    rung = [alarm for alarm in find_alarms(history) if alarm.period == days[-1]]
    assert len(rung) > 0
    assert samples[key("kdey_alarms", kind="moved")] == len(rung)
    begins = datetime(2024, 1, 11, tzinfo=UTC).timestamp()
    assert samples[key("kdey_newest_period_seconds")] == begins


def test_groups_have_labels_whatever_their_names() -> None:
    names = ['a "b"\\c\nd', "plain", "{x=y},"]
    settings = MonitorSettings(check_fit=True, accuracy_below=0.5)
    history = History(("v\\", "w"), (0.5, 0.5), settings, by="shop").with_periods(
        [
            replace(period(3, [0.25, 0.75]), group=name, fit_p_value=np.nan, accuracy=0.75)
            for name in names
        ]
    )
    samples = parsed(metrics_text(history))
    for name in names:
        assert samples[key("kdey_share", class_="v\\", group=name)] == 0.25
        assert samples[key("kdey_accuracy", group=name)] == 0.75
        assert np.isnan(samples[key("kdey_fit_p_value", group=name)])
        assert samples[key("kdey_alarms", kind="accuracy", group=name)] == 0
    assert key("kdey_newest_period_seconds") not in samples


def test_a_history_without_periods_has_metrics() -> None:
    assert parsed(metrics_text(empty()))[key("kdey_periods")] == 0


def test_the_parser_of_prometheus_reads_them() -> None:
    openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
    history = empty().with_periods([period("2024-01-01", [0.5, 0.3, 0.2])])
    families = list(openmetrics.text_string_to_metric_families(metrics_text(history)))
    samples = {
        key(sample.name, **sample.labels): sample.value for f in families for sample in f.samples
    }
    assert samples == parsed(metrics_text(history))
