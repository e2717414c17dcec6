"""The command `knockout`, also as `python -m knockout`. It loads next to nothing before Ctrl-C is safe."""

import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C while it loads ends the program without a word, as it ends any other."""
    asked = signal.getsignal(signal.SIGINT)
    if asked is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from knockout.cli import main as command
    from knockout.screen import open_closed

    open_closed()
    signal.signal(signal.SIGINT, asked)
    try:
        command()
    except KeyboardInterrupt:  # in the moment between here and the command's own care for it
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
