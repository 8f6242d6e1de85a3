"""The figures of a report, each a function from plain values to a drawing."""
