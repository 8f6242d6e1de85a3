"""The sparse reader against scikit-learn's, and its errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from kdey.datasets.loading import read_sparse

from .cases import sparse_text


@pytest.mark.parametrize("seed", range(5))
def test_reader_equals_scikit_learns(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.txt"
    path.write_text(sparse_text(25, seed))
    X, y = read_sparse(path)
    expected, labels = load_svmlight_file(str(path), zero_based=False)
    np.testing.assert_array_equal(X.toarray(), expected.toarray())
    np.testing.assert_array_equal(y, labels)


def test_order_blank_lines_comments_and_empty_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 3:1 1:2.5\n\n-1\n+1\t2:-4e-1 # a comment\n")
    X, y = read_sparse(path)
    np.testing.assert_array_equal(X.toarray(), [[2.5, 0, 1], [0, 0, 0], [0, -0.4, 0]])
    assert y.tolist() == [1, -1, 1]
    assert X.has_sorted_indices


BAD = {
    "": "the file is empty",
    "1 1:1\nx 2:1\n": "line 2: the label 'x' is not an integer",
    "1 1:1\n\n0.5 2:1\n": r"line 3: the label '0.5' is not an integer",
    "1 1:1 2\n": "line 1: '2' is not of the form column:value",
    "1 0:1\n": "line 1: '0:1' is not of the form",
    "1 1.5:1\n": "line 1: '1.5:1' is not of the form",
    "1 1: 2:3\n": "line 1: '1:' is not of the form",
    "1 1:2:3 4\n": "line 1: '1:2:3' is not of the form",
    "1 1:nan\n": "line 1: '1:nan' is not of the form",
    "1 a:1\n": "line 1: 'a:1' is not of the form",
    "99999999999999999999999 1:1\n": "line 1: the label .* is not an integer",
}


@pytest.mark.parametrize("text", BAD)
def test_faults_are_named_with_file_and_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"bad.txt.*{BAD[text]}"):
        read_sparse(path)
