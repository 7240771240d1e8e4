"""Processes that have imported torch, and nothing of visops: each starts in a few milliseconds.

A server imports torch, which takes seconds, and forks for each program.
"""

import atexit
import functools
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path


@functools.cache
def _server() -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = subprocess.Popen(
        [sys.executable, __file__],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)  # which ends its input, and so the server
    return server


def run(
    program: str,
    *arguments: str,
    cwd: Path | None = None,
    check: bool = False,
    **variables: str | None,
) -> subprocess.CompletedProcess[str]:
    """Run a program as `python -c` does; a variable that is None is not there."""
    environment = {**os.environ, **variables}
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("stdout", "stderr")]
        request = {
            "words": [program, *arguments],
            "cwd": str(cwd or Path.cwd()),
            "environment": {n: v for n, v in environment.items() if v is not None},
            "files": [str(file) for file in files],
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        printed = [file.read_text() for file in files]
    done = subprocess.CompletedProcess([sys.executable, "-c", program], status, *printed)
    if check:
        assert status == 0, done.stderr
    return done


def _become(cwd: str, environment: dict[str, str], files: list[str]) -> None:
    """Make this process one that was started with these."""
    for number, file in zip((1, 2), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(cwd)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = ["", *filter(None, given), *sys.path[1:]]
    sys.argv[0] = "-c"


def _execute(program: str) -> int:
    """Run a program, and return the exit status that it would have."""
    try:
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _serve() -> None:
    """Fork for each request, until there are no more."""
    import torch  # noqa: F401

    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            program, *sys.argv[1:] = request.pop("words")
            _become(**request)
            status = _execute(program)
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)  # taking torch apart would take longer than most programs
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()
