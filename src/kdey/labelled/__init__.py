"""Labels from the new data: estimates that use a few labels of the bag itself.

``sample.py`` is a bag of which some instances have labels. ``label_shift.py`` uses labels as rows
of the likelihood, ``prediction_powered.py`` corrects mean predictions (``predictions.py``) by them
and ``shift_test.py`` tests whether only prevalences have changed. ``run.py`` brings these together
into the result of ``estimate.py``. ``plan.py`` says how many labels are needed, and of which
instances.
"""

from kdey.labelled.estimate import LabelledEstimate
from kdey.labelled.plan import Plan, SamplingPlan, plan_sample
from kdey.labelled.run import (
    BagRequest,
    LabelledRequest,
    estimate_labelled,
    estimate_labelled_bags,
)
from kdey.labelled.sample import Labelled, LabelledSample, labelled_sample
from kdey.labelled.shift_test import LabelShiftTest

__all__ = [
    "BagRequest",
    "LabelShiftTest",
    "Labelled",
    "LabelledEstimate",
    "LabelledRequest",
    "LabelledSample",
    "Plan",
    "SamplingPlan",
    "estimate_labelled",
    "estimate_labelled_bags",
    "labelled_sample",
    "plan_sample",
]
