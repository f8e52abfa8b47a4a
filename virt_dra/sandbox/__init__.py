"""Child processes for hostile or long work: started confined, asked by typed messages, killed when they don't answer.

    messages     dataclasses as frames; what a child sends is bounded and validated, never unpickled
    confinement  what the kernel withholds from a process
    inside       the side of the child: its connection, and the program that every sandbox starts with
    process      the side of the parent: starts a child, asks it, kills and reaps it
    keeping      starts another where one has ended, after a pause

What is asked, and what a process may use, belongs to the users: :mod:`webhooks.worker`,
:mod:`virt_dra.operator.explanation_process`, :mod:`virt_dra.extender.advising_process`,
:mod:`virt_dra.report_server.rendering`. Must not know any of them, nor Kubernetes. Why it is built like this:
docs/decisions/0020-sandbox.md.
"""
