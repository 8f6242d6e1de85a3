"""What every room needs and none is about: files, threads, warnings, validation."""
