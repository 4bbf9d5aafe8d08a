"""The storm of erasures on a disk that fails each twentieth call or so.

python -m tests.storms.disk_faults --faults 3000 --seed 1 --encrypted
"""

import sys

from tests.storms.erasures import main

if __name__ == "__main__":
    sys.exit(main(["--gap", "20", "--faults", "3000", *sys.argv[1:]]))
