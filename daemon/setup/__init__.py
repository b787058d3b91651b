"""Make what frugald needs in a cloud, once: shown first, repeatable, and undone by the same list."""
