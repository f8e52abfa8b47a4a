"""The controllers: plans as cases, loops over the embedded cluster. Worlds that several rooms use are here."""
