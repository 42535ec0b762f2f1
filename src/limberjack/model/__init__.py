"""Models: what is built (`Builder`), what is simulated (`Model`), and the rules both obey."""
