"""What is known of a running cluster, kept up to date by informers: for the webhook and for ``lint --live``.

Must not decide verdicts or know the command line.
"""
