"""The benchmark that `make bench` runs: a comparison of stores.

The benchmarks of recall and of rendering have their own commands: see `benchmarks/README.md`.
"""

from benchmarks.store.__main__ import main

if __name__ == "__main__":
    main()
