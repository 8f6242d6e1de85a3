"""Model files that cannot run code when they are read: JSON, plain arrays and skops."""

from kdey.persistence.model_file import describe, load, save

__all__ = ["describe", "load", "save"]
