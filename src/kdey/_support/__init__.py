"""Helpers that every part of the library uses: files, threads, warnings, validation."""
