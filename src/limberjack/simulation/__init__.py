"""`Simulation`: one model, one method, a clock, forces and a recorder; handles, grips, trajectories."""
