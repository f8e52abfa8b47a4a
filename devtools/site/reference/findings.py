"""Every finding of the lint, with what it means at admission; its page in docs/lint explains it."""

from __future__ import annotations

from typing import Final

from devtools.site.markdown import escaped, table
from webhooks.lint.finding import DENIAL, WARNING, LintCheck
from webhooks.lint.registry import CHECKS

_INTRODUCTION: Final = """\
# Findings of the lint

Made of the checks themselves, in the order in which they are reported. [How the lint works](../docs/lint/README.md)
says where they appear and how they are silenced. *Last* means: only looked for where nothing else prevents the VM from
starting, and only by the command line.
"""


def findings_page() -> str:
    rows = [
        (
            f"[{check.id}](../docs/lint/{check.id}.md)",
            check.severity,
            _at_admission(check),
            escaped(check.title),
            "last" if check.last else "",
        )
        for check in CHECKS
    ]
    return f"{_INTRODUCTION}\n{table(('finding', 'severity', 'at admission', 'what it says', ''), rows)}"


def _at_admission(check: LintCheck) -> str:
    if check.last:
        return "not checked"
    return WARNING if check.severity == WARNING or check.lenient else DENIAL
