"""What follows a cluster through the port: informers, the work queue, the event recorder, retries on conflict.

Must not know which cluster it is, nor what the objects mean.
"""
