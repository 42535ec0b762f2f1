"""The command line, the demonstration, and compilation ahead of time."""
