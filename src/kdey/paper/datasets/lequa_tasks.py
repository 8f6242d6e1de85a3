"""Facts on the tasks of LeQua 2022 and 2024: kinds of instances, sizes of bags, measures.

* 2022: T1A (2 classes) and T1B (28) are vectors of 300 numbers, T2A and T2B the documents of the
  same tasks as text.
* 2024: T1 (2 classes), T2 (28), T3 (5 ordered classes) and T4 (2 classes, covariate shift too) are
  vectors of 256 numbers. The training data of T3 are samples, each with its own prevalences.

Every task has 1,000 development and 5,000 test samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Samples of the development and of the test part.
N_DEVELOPMENT, N_TEST = 1000, 5000


@dataclass(frozen=True)
class LequaTask:
    """What is known of a task without its files.

    Attributes
    ----------
    name : str
    edition : int
        2022 or 2024.
    bag_size : int
    n_classes : int
    documents : bool
        Whether instances are texts instead of vectors.
    ordered : bool
        Whether the classes are ordered; the measures are then those of ordinal quantification.
    training : {"instances", "samples"}
        Whether the training data are one file, or samples in one file each.
    """

    name: str
    edition: int
    bag_size: int
    n_classes: int
    documents: bool = False
    ordered: bool = False
    training: Literal["instances", "samples"] = "instances"

    @property
    def folder(self) -> str:
        """The folder of the edition below a data directory."""
        return f"lequa{self.edition}"

    @property
    def title(self) -> str:
        """What to call the task in a sentence."""
        return f"LeQua {self.edition}, task {self.name}"


#: Task by name; the names of the two editions differ.
TASKS: dict[str, LequaTask] = {
    task.name: task
    for task in (
        LequaTask("T1A", 2022, 250, 2),
        LequaTask("T1B", 2022, 1000, 28),
        LequaTask("T2A", 2022, 250, 2, documents=True),
        LequaTask("T2B", 2022, 1000, 28, documents=True),
        LequaTask("T1", 2024, 250, 2),
        LequaTask("T2", 2024, 1000, 28),
        LequaTask("T3", 2024, 200, 5, ordered=True, training="samples"),
        LequaTask("T4", 2024, 250, 2),
    )
}


def find_task(name: str) -> LequaTask:
    """Return the task of a name; raises ValueError if there is none."""
    if name not in TASKS:
        raise ValueError(f"task must be one of {list(TASKS)}, got {name!r}")
    return TASKS[name]
