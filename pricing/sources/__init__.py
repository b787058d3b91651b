"""Where prices come from: one module for each cloud, and one for price lists in files."""
