"""The official homes of the data: pages to read, and files to download."""

from __future__ import annotations

from dataclasses import dataclass

from kdey.datasets.recipes import Recipe, recipe_for
from kdey.datasets.registry import Entry

_ZENODO_LEQUA = "https://zenodo.org/records/6546188"
_ZENODO_TWEETS = "https://zenodo.org/records/4255764"


@dataclass(frozen=True)
class Home:
    """Where a data set officially lives.

    Attributes
    ----------
    page : str
        For people: description, licence, citation.
    urls : tuple of str
        What to download; empty where it has to be done by hand.
    recipe : Recipe or None
        How the downloads become a table of the data directory, for UCI sets.
    """

    page: str
    urls: tuple[str, ...] = ()
    recipe: Recipe | None = None


def home(entry: Entry) -> Home:
    """Return the official home of a data set."""
    if entry.group == "lequa":
        names = (file.path.rpartition("/")[2] for file in entry.files)
        return Home(_ZENODO_LEQUA, tuple(f"{_ZENODO_LEQUA}/files/{name}" for name in names))
    if entry.group == "tweets":
        archive = f"{_ZENODO_TWEETS}/files/tweet_sentiment_quantification_snam.zip"
        return Home(_ZENODO_TWEETS, (archive,))
    if entry.uci is not None:
        recipe = recipe_for(entry.full_name)
        page = f"https://archive.ics.uci.edu/dataset/{entry.uci}"
        return Home(page, () if recipe is None else recipe.urls, recipe)
    return Home(_PAGES.get(entry.group, ""))


_PAGES = {
    "tweets-approx": "no official home: word counts made from the public tweets",
    "text": "http://qwone.com/~jason/20Newsgroups/ (documents; the vectors are derived)",
    "uci-extra": "http://yann.lecun.com/exdb/mnist/",  # the one extra set that UCI does not hold
    "bundled": "scikit-learn",
}
