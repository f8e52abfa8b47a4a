"""Fair shares of what a server has only one of, or few: its event loop, its threads, its child processes.

    use    decayed seconds that tenants used, and what took them too long, in bounded memory
    order  waiting tenants in the order of start-time fair queueing
    lanes  a lane: work of tenants in turns

A *tenant* is a tuple of names, from the widest to the narrowest: address, account, namespace. Each of these levels is
shared by itself, so that who has many names of a narrow level gains nothing by them.

The webhook's server and its worker, and the extender, share their loops, threads and processes by it. Imports nothing
of the project, and must not know what the work is.
"""
