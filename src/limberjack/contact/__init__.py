"""Contacts in, impulses out: warm-start cache, friction cone, restitution, contact graph, sweeps, shock propagation."""
