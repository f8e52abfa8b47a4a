"""Runs the simulations of a sweep: here, in processes beside this one, or on a Dask cluster."""
