"""Contacts in, impulses out: warm start, friction cone, restitution, contact graph, sweeps."""
