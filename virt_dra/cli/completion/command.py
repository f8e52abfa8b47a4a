"""``virt-dra completion``: the script that makes a shell complete virt-dra."""

from __future__ import annotations

import click

from virt_dra.cli.completion.answers import SHELLS, script

HELP = """Print the script that makes bash (4.4 or newer), zsh or fish complete virt-dra: commands, options, their
values, and files.

\b
Where it belongs:
  bash    virt-dra completion bash > ~/.local/share/bash-completion/completions/virt-dra
  zsh     virt-dra completion zsh > ~/.zfunc/_virt-dra, with fpath+=(~/.zfunc) before compinit in ~/.zshrc
  fish    virt-dra completion fish > ~/.config/fish/completions/virt-dra.fish

bash needs the package bash-completion for that; without it, add eval "$(virt-dra completion bash)" to ~/.bashrc. Open a
new shell then.

kubectl completes kubectl virt-dra by itself, if its own completion is set up (kubectl completion --help): it asks the
program kubectl_complete-virt_dra, which is installed together with virt-dra. """

EPILOG = """\b
Examples:
  virt-dra completion bash
  virt-dra completion zsh > /tmp/out/_virt-dra

\b
Exit codes: 0 printed; 2 there is no such shell.
"""


@click.command(name="completion", help=HELP, epilog=EPILOG)
@click.argument("shell", metavar="|".join(SHELLS), type=click.Choice(SHELLS))
def command(shell: str) -> None:
    click.echo(script(shell), nl=False)
