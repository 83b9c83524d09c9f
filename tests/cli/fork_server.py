"""Runs commands in real processes, but imports torch only once for all of them.

Each line of stdin is an order in JSON: the words, the working folder, the
environment, and the paths that stdin, stdout and stderr lead to. A forked child
is the command; the answers are its process id and, when it has ended, its exit
code.
"""

import importlib
import json
import os
import sys

from vitedu.cli import main


def serve():
    """Carry out orders until there are no more."""
    with os.fdopen(os.dup(0)) as orders, os.fdopen(os.dup(1), "w") as answers:
        for line in orders:
            child = os.fork()
            if not child:
                run(**json.loads(line))
            print(child, file=answers, flush=True)
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            print(code, file=answers, flush=True)


def run(words, folder, environment, streams):
    """Be the command, to the end of this process."""
    os.chdir(folder)
    os.environ.clear()  # the first test may have had others
    os.environ.update(environment)
    for descriptor, path in enumerate(streams):
        flags = os.O_WRONLY if descriptor else os.O_RDONLY
        os.dup2(os.open(path, flags), descriptor)
    sys.stdin, sys.stdout, sys.stderr = map(stream, range(3))
    sys.exit(main(words))


def stream(descriptor):
    """One of the three streams, as Python finds it at its start."""
    return open(
        descriptor,
        "w" if descriptor else "r",
        encoding=os.environ.get("PYTHONIOENCODING", "utf-8"),
        errors="backslashreplace" if descriptor == 2 else "strict",
        closefd=False,
    )


if __name__ == "__main__":
    # what every training imports on its way: a second that no child needs to
    # spend
    for name in ("matplotlib.figure", "torch._dynamo"):
        importlib.import_module(name)
    serve()
