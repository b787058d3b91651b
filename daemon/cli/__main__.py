"""`python -m daemon.cli` is `frugald`."""

from daemon.cli import main

main()
