"""`python -m haloconv` is the program."""

from ._program import main

main()
