"""Tables in files: what a model takes of them, reading them in batches, writing them whole."""
