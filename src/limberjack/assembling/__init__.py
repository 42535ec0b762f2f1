"""Assembly of articulated solids by linearised displacement constraints (Faure 1998)."""
