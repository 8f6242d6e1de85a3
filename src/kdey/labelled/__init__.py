"""Labels from the new data: estimates that use a few labels of the bag itself.

``sample`` is a bag of which some instances have labels, with the shares of the labels alone and the
prediction-powered ones, which correct mean predictions by them. ``label_shift`` uses labels as rows
of the likelihood, and tests whether only prevalences have changed. ``labelled_estimate`` brings
these together into one result. ``sampling_plan`` says how many labels are needed, and of which
instances.
"""

from kdey.labelled.label_shift import LabelShiftTest
from kdey.labelled.labelled_estimate import (
    LabelledEstimate,
    estimate_labelled,
    estimate_labelled_bags,
)
from kdey.labelled.sample import Labelled, LabelledSample, labelled_sample
from kdey.labelled.sampling_plan import Plan, SamplingPlan, plan_sample

__all__ = [
    "LabelShiftTest",
    "Labelled",
    "LabelledEstimate",
    "LabelledSample",
    "Plan",
    "SamplingPlan",
    "estimate_labelled",
    "estimate_labelled_bags",
    "labelled_sample",
    "plan_sample",
]
