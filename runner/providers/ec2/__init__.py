"""EC2: what the provider for AWS is made of."""
