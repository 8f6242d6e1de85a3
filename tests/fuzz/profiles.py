"""How many examples are tried: few and always the same in CI, many and new ones at night."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "fuzz",
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "fuzz-nightly", settings.get_profile("fuzz"), derandomize=False, phases=list(Phase)
)

#: Set to "fuzz-nightly" for a hundred times as many examples, others at each run.
PROFILE = os.environ.get("KDEY_FUZZ", "fuzz")


def fuzzed(examples: int) -> settings:
    """Return the settings of a test that tries ``examples`` inputs in CI."""
    times = 100 if PROFILE == "fuzz-nightly" else 1
    return settings(settings.get_profile(PROFILE), max_examples=examples * times)
