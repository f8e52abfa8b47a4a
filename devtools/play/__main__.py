"""``python -m devtools.play``, which ``make cluster`` runs."""

from devtools.play.command import main

main()
