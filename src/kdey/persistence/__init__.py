"""Persistence: model files of JSON, plain arrays and skops, which cannot run code when read."""

from kdey.persistence.model_file import describe, load, save

__all__ = ["describe", "load", "save"]
