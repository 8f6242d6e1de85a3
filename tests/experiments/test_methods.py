"""The table of methods is the paper's."""

from __future__ import annotations

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid

from experiments.scores import published_results, published_values
from experiments.settings import (
    AUTOMATIC_METHODS,
    AUTOMATIC_PAIRS,
    COMPACT,
    METHODS,
    PAIRS,
    SETTINGS,
    find_methods,
)
from kdey import KDEyML, Quantifier
from kdey.rows.monte_carlo import resolve_n_points, resolve_sampling


@pytest.mark.parametrize(
    ("names", "own"),
    [
        (("ACC", "PACC", "HDy-OvA", "DIR", "EMQ", "EMQ-BCTS"), 1),
        (("DM-T", "DM-HD", "DM-CS"), 21),
        (("KDEy-HD", "KDEy-CS", "KDEy-ML", "KDEy-L2"), 20),
    ],
)
def test_grids_have_the_papers_size(names: tuple[str, ...], own: int) -> None:
    for name in names:
        method = METHODS[name]
        grid = ParameterGrid(method.param_grid(SETTINGS["multi"].classifiers, method.grid))
        assert len(grid) == 14 * own
        made = method.build(LogisticRegression(), 0, 1)
        made.set_params(**grid[0])  # every name exists


def test_posteriors_are_made_as_in_the_paper() -> None:
    rule = {10: "DM KDEy", 0.4: "ACC PACC HDy DIR EMQ-BCTS", None: "EMQ"}
    for method in METHODS.values():
        if method.automatic:
            continue
        (known,) = {cv for cv, names in rule.items() if _named(method.name, names)}
        assert method.cv == known


def _named(name: str, names: str) -> bool:
    return name in names.split() or (name.split("-")[0] in names.split() and "EMQ" not in name)


def test_divergences_are_averaged_over_the_papers_points() -> None:
    quantifier = METHODS["KDEy-HD"].build(LogisticRegression(), 0, 1)
    quantifier.set_params(bandwidth=0.1)
    rows = quantifier.row_spec()
    assert resolve_n_points(rows.n_points, 5) == 10_000
    assert resolve_sampling(rows.sampling, rows.n_points) == "plain"


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda s: s.name)
def test_every_published_method_is_run(setting: object) -> None:
    assert set(AUTOMATIC_METHODS) <= set(setting.methods)  # type: ignore[attr-defined]
    kind, group = setting.published  # type: ignore[attr-defined]
    published = {
        entry.method
        for entry in published_results()
        if (entry.setting, entry.group) == (kind, group)
    }
    assert len(published) == 12
    assert published <= set(setting.methods)  # type: ignore[attr-defined]


def test_published_numbers_are_complete() -> None:
    assert len(published_values("multiclass", "UCI-multi", "mae")) == 5 * 12
    assert len(published_values("binary", "UCI-binary", "mrae")) == 29 * 12
    assert len(published_values("multiclass", "Tweets", "mae")) == 11 * 12
    assert published_values("multiclass", "UCI-multi", "mae")["letter", "PACC"] == 0.0052


def test_keys_tell_methods_apart_and_ignore_names() -> None:
    keys = [method.key for method in METHODS.values()]
    assert len(set(keys)) == len(keys)
    assert METHODS["DM-T"].thinned().key != METHODS["DM-T"].key


def test_thinned_grids_are_parts() -> None:
    thin = METHODS["KDEy-ML"].thinned()
    assert set(thin.grid["bandwidth"]) < set(METHODS["KDEy-ML"].grid["bandwidth"])
    assert not thin.beyond
    assert len(thin.grid["bandwidth"]) == 4


def test_unknown_methods_are_refused() -> None:
    assert [method.name for method in find_methods(["EMQ", "ACC", "EMQ"])] == ["EMQ", "ACC"]
    with pytest.raises(ValueError, match="'HDy' is unknown here"):
        find_methods(["HDy"], SETTINGS["multi"].methods)


def test_automatic_methods_are_the_quantifiers_at_their_defaults() -> None:
    for name, quantifier in (("KDEy-ML-auto", KDEyML), ("Quantifier", Quantifier)):
        method = METHODS[name]
        assert method.param_grid(SETTINGS["multi"].classifiers, method.grid) == {}
        built = method.build(LogisticRegression(C=123.0), 4, 2)
        assert type(built) is quantifier
        assert built.get_params(deep=False) == quantifier(random_state=4, n_jobs=2).get_params(
            deep=False
        )


def test_keys_of_the_papers_methods_are_those_of_stored_results() -> None:
    stored = {
        "ACC": "fa916552a0201ce63440285547ac3574",
        "KDEy-ML": "8ccc92545f74879b051617677945be69",
    }
    assert {name: METHODS[name].key for name in stored} == stored


def test_named_methods_exist() -> None:
    pairs = {name for pair in (*PAIRS, *AUTOMATIC_PAIRS) for name in pair}
    assert set(COMPACT) | pairs <= set(METHODS)
    assert AUTOMATIC_METHODS == ("KDEy-ML-auto", "Quantifier")
