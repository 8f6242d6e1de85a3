"""The named methods: thin, declarative compositions of rows, problems and solvers."""
