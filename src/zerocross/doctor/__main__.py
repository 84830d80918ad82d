"""`python -m zerocross.doctor`: the findings without the command line's packages, in a base installation."""

from __future__ import annotations

import sys

from zerocross.doctor import examine, healthy, render

if __name__ == "__main__":
    diagnoses = examine()
    print(render(diagnoses))
    sys.exit(0 if healthy(diagnoses) else 1)
