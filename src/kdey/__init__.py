"""kdey: class prevalences in unlabelled data."""
