"""How a VM asks to keep its devices while it is stopped (P-rules): `terms` are the annotations, `claims` the claims."""
