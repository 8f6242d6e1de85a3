"""How far the answer can be trusted: what was checked, and what came out.

:func:`fit_sentences` says it for everybody, :func:`fit_meaning` for those who know the method.
"""

from __future__ import annotations

from kdey.diagnostics import FitVerdict
from kdey.diagnostics.fit_check import FitResult
from kdey.status import OK, ONE_SIDED, POOR_FIT

#: Tone and headline of the status of a fit check; other statuses say that there was none.
_HEADLINES = {
    OK: ("good", "Checked."),
    POOR_FIT: ("bad", "Careful."),
    ONE_SIDED: ("", "Partly checked."),
}
_RESULTS = {
    OK: "The records look like a mix of the classes as they were in training.",
    ONE_SIDED: (
        "No sign was found that the records are anything but a mix of the classes as they were in "
        "training, but only a part of what may go wrong was checked."
    ),
}
_NOT_CHECKED = (
    "Whether the records look like a mix of the classes as they were in training is not known; "
    "the technical part says why it was not checked."
)
_MISFIT = "The records do not look like any mix of the classes as they were in training"
#: What the check compares.
MEANING_OF_CHECKED = (
    "The shares rest on one assumption: each class looks here as it looked in training, and only "
    "the shares have changed. Checking means that the records were compared with mixes of the "
    "training examples at the estimated shares."
)


def fit_headline(result: FitResult) -> tuple[str, str]:
    """Return the tone ("good", "bad" or "") and the headline of what is known of the fit."""
    return _HEADLINES.get(result.status, ("", "Not checked."))


def fit_result(result: FitResult) -> str:
    """Return what the check found, in a sentence for everybody."""
    if not isinstance(result, FitVerdict):
        return _NOT_CHECKED
    if not result.rejected:
        return _RESULTS[result.status]
    if result.unknown_class:
        return (
            f"{_MISFIT}: at least about {result.unknown_share:.0%} of them are unlike all training "
            "examples, as a class that training did not have would be. The shares may be wrong."
        )
    return (
        f"{_MISFIT}: the classes look different from before, so that the shares may be wrong by "
        "more than the limits say."
    )


def fit_sentences(result: FitResult) -> list[str]:
    """Return what the check found, what it asked and what to do, for everybody."""
    sentences = [fit_result(result), MEANING_OF_CHECKED]
    if not isinstance(result, FitVerdict):
        return sentences
    if result.rejected:
        return [
            *sentences,
            "Look at some of the records by hand, and label some of them to train on if you can.",
        ]
    return [
        *sentences,
        "This is no proof: few records show little, and no check can reveal a change of the "
        "classes that looks like a change of their shares.",
    ]


def fit_meaning(check: FitVerdict) -> list[str]:
    """Return what the fit check asks and what follows from it, for those who know the method."""
    question = (
        "The estimate rests on one assumption: each class looks in this bag as it looked in "
        "training, and only the shares have changed. The check compares how well the bag fits a "
        "mixture of the training classes with how well bags fit that were drawn from the training "
        "data at the estimated shares."
    )
    if check.rejected:
        conclusion = (
            "Take the estimate with care: look at the instances that fit worst, and label some "
            "of this bag's instances to train on if you can."
        )
    elif not check.cross_fitted:
        conclusion = "The check found no contradiction to the assumption where it looked."
    else:
        conclusion = (
            "Nothing contradicts the assumption. This is no proof: a small bag shows little, "
            "and scores cannot reveal a change that looks like a change of shares."
        )
    if check.cross_fitted:
        return [question, conclusion]
    caution = (
        "The check was one-sided: the bag was scored by another model than the training data "
        "(cross-validation), which makes the p-value larger than it should be. There are fewer "
        "alarms than there should be, never too many, and classes that moved to where others are "
        "go unnoticed. Fit with keep_fold_models=True for the full check."
    )
    return [question, conclusion, caution]
