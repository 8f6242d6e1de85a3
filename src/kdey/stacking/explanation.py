"""A pool in words: what it consists of, how good it is, and what was left out."""

from __future__ import annotations

from collections.abc import Iterable

from kdey.metrics import get_metric
from kdey.stacking.record import MemberRecord, StackRecord
from kdey.tuning.result import Tuning


def describe_pool(record: StackRecord) -> str:
    """Return a sentence that names the classifiers and methods of a pool.

    Parameters
    ----------
    record : StackRecord
    """
    classifiers = _listed(dict.fromkeys(member.classifier for member in record.by_weight))
    methods = _listed(dict.fromkeys(member.method for member in record.by_weight))
    return (
        f"The estimates come from {_count(len(record.members), 'model')} (classifiers: "
        f"{classifiers}; methods: {methods}), each with a weight by how well it predicts labels "
        "that it has not seen."
    )


def summarise_pool(record: StackRecord, tuning: Tuning) -> str:
    """Return a sentence or two about a pool.

    Parameters
    ----------
    record : StackRecord
    tuning : Tuning
        The choice of the smoothing, with the error of the pool on held-out bags.
    """
    heaviest = record.by_weight[0]
    text = (
        f"A pool of {_count(len(record.members), 'member')}; the heaviest is {heaviest.name} "
        f"({_percent(heaviest.weight)})."
    )
    if tuning.reason is None:
        text += f" {_error_sentence(record, tuning)}"
    return text


def explain_pool(record: StackRecord, tuning: Tuning, n_classes: int) -> str:
    """Return in words what a pool consists of, how good it is, and what was left out.

    Parameters
    ----------
    record : StackRecord
    tuning : Tuning
    n_classes : int
    """
    lines = [
        "The prevalences of a bag maximise the likelihood of one pool of posteriors for "
        f"{n_classes} classes. Its members, each a classifier with a method, have these weights:",
        *(_member_line(member, tuning) for member in record.by_weight),
        f"The pool has a held-out log-loss of {record.log_loss:.3g}; the best member has "
        f"{min(member.log_loss for member in record.members):.3g}.",
    ]
    if tuning.reason is None:
        lines += [_error_sentence(record, tuning), _smoothing_sentence(tuning)]
    else:
        lines.append(f"The pool was not smoothed: {tuning.reason}.")
    lines += [f"Left out: {item.name}, because {item.reason}." for item in record.left_out]
    if record.seconds:
        times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in record.seconds.items())
        lines.append(f"Time of the fits: {times}.")
    return "\n".join(lines)


def _member_line(member: MemberRecord, tuning: Tuning) -> str:
    line = f"- {_percent(member.weight)} {member.name}: log-loss {member.log_loss:.3g}"
    if member.error is None:
        return line
    return f"{line}, mean {get_metric(tuning.metric).title} {member.error:.3g}"


def _error_sentence(record: StackRecord, tuning: Tuning) -> str:
    """Compare the pool with its best member and with answering all classes alike."""
    error = get_metric(tuning.metric).title
    best = record.best_member
    text = (
        f"On {tuning.n_bags} bags of {tuning.bag_size} held-out training instances its mean "
        f"{error} was {tuning.best.score:.3g}, against {tuning.baseline:.3g} for answering all "
        "classes alike"
    )
    if best.error is None or len(record.members) == 1:
        return f"{text}."
    return f"{text} and {best.error:.3g} for the best member alone ({best.name})."


def _smoothing_sentence(tuning: Tuning) -> str:
    power = dict(tuning.best.params).get("power", 1.0)
    share = tuning.best.value
    parts = ["Its posteriors are recalibrated"]
    if power != 1.0:
        parts.append(f"raised to the power {power:g}")
    if share > 0:
        parts.append(
            f"and every bag gets pseudo-instances of each class with {100 * share:.2g} % of its "
            "weight, which keeps classes that cannot be told apart from going to zero"
        )
    return ", ".join(parts) + "."


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
