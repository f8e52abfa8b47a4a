"""The process in a launcher pod of our own: it waits for devices, starts the domain, and follows it to its end."""
