"""`python -m knockout` is the command `knockout`."""

from knockout.cli import main

if __name__ == "__main__":
    main()
