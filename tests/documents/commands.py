"""``kdey`` as the pages type it, in forks of one process that has the modules of the commands.

A page types up to a dozen commands, and a process that starts from nothing for each of them would
spend most of its time on importing scikit-learn, pandas and pyarrow. How a process begins and ends
is tried in ``tests/cli``.

``commands.py serve SOCKET`` waits for commands until its standard input is closed. ``commands.py
ask SOCKET WORD ...`` sends it words, folder, environment and the three standard streams, and ends
with the exit code of the command. Asking loads the standard library alone.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from importlib import import_module

#: What the commands of the pages load, as far as it is installed.
MODULES = (
    *("kdey.cli.fit_commands", "kdey.cli.model_commands", "kdey.cli.data_commands"),
    *("kdey.evaluation", "kdey.groups", "kdey.monitoring", "kdey.persistence", "kdey.report"),
    *("sklearn.ensemble", "sklearn.linear_model", "pandas", "pyarrow.parquet", "pyarrow.csv"),
    *("jinja2", "rich.table", "skops.io"),
)


def script() -> str:
    """Return a shell script that is the command ``kdey``; it may be called from any folder."""
    if sys.platform != "linux":  # elsewhere, libraries do not take well to forks
        return f'#!/bin/sh\nexec "{sys.executable}" -m kdey.cli "$@"\n'
    return f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" ask "{_served()}" "$@"\n'


@cache
def _served() -> str:
    """Start the process that answers; it ends with this one."""
    folder = tempfile.TemporaryDirectory(prefix="kdey-")
    path = f"{folder.name}/socket"
    words = [sys.executable, __file__, "serve", path]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_plain())
    atexit.register(_stop, process, folder)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return path


def _stop(process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str]) -> None:
    process.communicate()  # closes its standard input, and waits for its end
    folder.cleanup()


def _plain() -> dict[str, str]:
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(sys.path)}


def serve(path: str) -> None:
    """Answer requests, each in a process of its own, until nobody can send any."""
    for name in MODULES:
        import_module(name)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        if os.fork() == 0:
            sys.stdin.read()
            os.kill(os.getppid(), signal.SIGTERM)
            os._exit(0)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
        while True:
            connection = listening.accept()[0]
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                return _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    """Run a command in a fork of this process, and send its exit code."""
    request, streams, _, _ = socket.recv_fds(connection, 1_000_000, 3)
    command = os.fork()
    if command == 0:
        connection.close()
        return _run(json.loads(request), streams)
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    connection.sendall(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def _run(request: dict[str, object], streams: list[int]) -> None:
    from kdey.cli import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    sys.argv = ["kdey", *request["words"]]  # type: ignore[misc]
    main()


def ask(path: str, *words: str) -> int:
    """Send a command, and return its exit code."""
    request = {"folder": os.getcwd(), "environment": dict(os.environ), "words": words}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        return int(connection.recv(10) or b"1")


if __name__ == "__main__":
    sys.exit({"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:]))
