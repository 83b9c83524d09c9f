"""The script `vitedu`, outside the package: Ctrl-C works while that loads."""

import signal


def main() -> int:
    """Import the command and run it.

    Importing torch takes seconds; Ctrl-C ends them at once, without a
    traceback.
    """
    before = signal.getsignal(signal.SIGINT)
    # nohup ignores it, and so do we; a handler that isn't Python's is None
    is_pythons = before is signal.default_int_handler
    if is_pythons:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from vitedu.cli import main as run

    if is_pythons:
        signal.signal(signal.SIGINT, before)
    return run()
