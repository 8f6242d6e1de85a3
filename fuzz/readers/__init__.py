"""Fuzzers of the readers of files."""
