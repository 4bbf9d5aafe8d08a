"""The `factmem` command, for `python -m factmem`."""

from factmem._cli import main

if __name__ == "__main__":
    main()
