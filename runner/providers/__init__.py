"""One file per cloud: each makes the calls of `runner.provider.Provider` mean the same thing."""
