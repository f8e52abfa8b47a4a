"""Histories of a control plane under disturbance: all its loops (``virt_dra.simulator.control_plane.LOOPS``), each as a
process.

    story        what users and kubelets do, made from a seed: episodes whose steps may come in any order
    turbulence   a cluster between a loop and the embedded one that delays, refuses, loses and repeats, and ends the
                 loop between two writes
    shuffled     an event loop with virtual time that runs ready callbacks in random order
    histories    plays a story with and without turbulence; compares what is left after each episode
    findings     what must hold once calm has returned

``python -m devtools.interleavings 1000 --seed 1`` plays many on all processors; a failure names its seed, which plays
it again.
"""
