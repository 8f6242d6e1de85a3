"""Coverage-guided fuzzing and campaigns of generated problems (README.md)."""
