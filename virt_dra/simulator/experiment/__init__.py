"""Experiments: VMs arrive at a cluster, live and leave, nodes fail, and a policy places the VMs. Discrete events, no
cluster, no clock.

experiment = …                          # description.py, trace.py or dump.py
simulation = Simulation(experiment, "pack", seed=1)
simulation.run(); simulation.measures() # the same for the same seed
"""
