"""`python -m millstream.cli`: the command line without its script."""

from __future__ import annotations

from millstream.cli import main

main(prog_name="millstream")
