"""What `make bench` runs: the stores, side by side.

The benchmarks of recall and of rendering run by themselves: see `benchmarks/README.md`.
"""

from benchmarks.store.__main__ import main

if __name__ == "__main__":
    main()
