PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test native
native:
	cmake -S . -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=Release
	cmake --build build/dev
	cp build/dev/_kdey.bin src/kdey/_kdey.bin
