"""What runs on a rented machine: one job's command, its checkpoints into the store, and the machine's end in time."""
