"""AWS: clients, and what the price source asks them."""
