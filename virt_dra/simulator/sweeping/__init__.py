"""Runs the simulations of a sweep: here, in processes beside this one, or on a Dask cluster. What is simulated is
``virt_dra.simulator.experiment``'s; nothing is decided here."""
