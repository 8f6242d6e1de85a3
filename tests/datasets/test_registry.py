"""Names, groups, and what the registry knows."""

from __future__ import annotations

import re

import pytest

from kdey.datasets import names
from kdey.datasets.registry import GROUPS, entries, find

SIZES = {
    "uci-multi": 5,
    "uci-binary": 29,
    "uci-extra": 12,
    "tweets": 11,
    "lequa": 4,
    "lequa2024": 4,
    "text": 1,
}


@pytest.mark.parametrize(("group", "size"), SIZES.items())
def test_groups_have_their_sizes(group: str, size: int) -> None:
    assert len(names(group)) == len(set(names(group))) == size


def test_names_are_those_of_the_papers_tables() -> None:
    multi = ["dry-bean", "wine-quality", "academic-success", "digits", "letter"]
    assert names("uci-multi") == multi
    assert [find(name).title for name in names("tweets")] == [
        *("gasp", "hcr", "omd", "Sanders", "SemEval13", "SemEval14", "SemEval15", "SemEval16"),
        *("sst", "wa", "wb"),
    ]
    titles = [find(name).title for name in names("uci-binary")]
    assert {"yeast", "semeion", "balance.1", "wine-q-red", "pageblocks.5"} <= set(titles)
    assert not any("/" in title for title in titles)


@pytest.mark.parametrize("group", [*GROUPS, "bundled-binary"])
def test_every_name_finds_its_own_set(group: str) -> None:
    for name in names(group):
        entry = find(name)
        assert entry.group == ("uci-binary" if group == "bundled-binary" else group)
        assert find(entry.full_name) is entry
        assert find(entry.full_name.upper().replace(entry.group.upper(), entry.group)) is entry
        assert find(entry.name, entry.group) is entry


def test_stand_ins_never_answer_to_the_original_names() -> None:
    assert find("sanders").group == "tweets"
    stand_in = find("tweets-approx/sanders")
    assert stand_in.title == "tweets-approx/sanders"
    assert {e.title for e in entries() if e.group == "tweets-approx"}.isdisjoint(names("tweets"))


def test_ambiguous_names_are_refused_with_both_meanings() -> None:
    with pytest.raises(ValueError, match="uci-binary/yeast and uci-extra/yeast"):
        find("yeast")
    assert find("uci-extra/yeast").classes == 10
    assert find("yeast", "uci-binary").classes == 2


def test_bundled_binary_sets_are_those_of_the_paper() -> None:
    assert find("bundled-binary/wine.1") is find("wine.1") is find("wine.1", "bundled-binary")
    with pytest.raises(ValueError, match="no data set is called"):
        find("bundled-binary/yeast")


def test_titles_are_distinct() -> None:
    # hcr and the like are distinguished from their stand-ins, yeast from its multiclass version.
    titles = [entry.title for entry in entries()]
    assert len(titles) == len(set(titles))


def test_unknown_names_and_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean letter"):
        find("leter")
    with pytest.raises(ValueError, match=r"kdey\.datasets\.names"):
        find("qqqqqq")
    with pytest.raises(ValueError, match="group must be one of"):
        names("uci")


def test_known_files_have_whole_checksums_and_places_below_a_root() -> None:
    for entry in entries():
        for file in entry.files:
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert not file.path.startswith("/")
            assert ".." not in file.path


def test_every_set_has_a_home() -> None:
    for entry in entries():
        assert entry.page
        assert all(url.startswith("https://") for url in entry.urls)
    assert find("T1B").urls[0] == ("https://zenodo.org/records/6546188/files/T1B.train_dev.zip")
    assert len(find("digits").urls) == 2
