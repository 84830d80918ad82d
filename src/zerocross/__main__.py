"""`python -m zerocross`, and `torchrun ... -m zerocross`: the commands."""

from zerocross.cli import main

main()
