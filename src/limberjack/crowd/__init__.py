"""Many figures as one: arrays over figures, one budget of joints or of milliseconds, rollouts of many controls."""
