"""Classic DRA (KEP-3063, Kubernetes 1.26 to 1.31; C-18): a driver's controller allocates, and negotiates a node with
the scheduler.

Objects and their versions, the API server's rules for them, a framework for drivers, the scheduler's and the claim
controller's part, and the structured parameters of 1.30. Complete in itself: nothing imports it but one table
(``virt_dra.simulator.control_plane``), by which loops run and scenarios are played; without its rows scenarios know no
classic release. Must not import a clock or randomness, nor be imported by anything else.
"""
