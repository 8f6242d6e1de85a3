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

#: Set to "fuzz-nightly" for two hundred times as many examples, others at each run.
PROFILE = os.environ.get("KDEY_FUZZ", "fuzz")


def fuzzed(examples: int) -> settings:
    """Return the settings of a test: a hundred times ``examples`` at night, half of them in CI.

    CI tries the same inputs at every run, and has found in them what there is to find.
    """
    wanted = 100 * examples if PROFILE == "fuzz-nightly" else max(1, examples // 2)
    return settings(settings.get_profile(PROFILE), max_examples=wanted)
