"""The `factmem` command, for `python -m factmem`."""

from factmem.cli import main

if __name__ == "__main__":
    main()
