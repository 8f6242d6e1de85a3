"""Pictures of estimates, evaluations and classifiers."""
