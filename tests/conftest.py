"""For all tests: hypothesis without a clock, since machines that test are slow at times."""

from hypothesis import settings

settings.register_profile("frugald", deadline=None)
settings.load_profile("frugald")
