"""What a person sees of a run while it lasts, and how they stop it."""
