"""Speed and accuracy benchmarks: ``python -m benchmarks`` runs them, each module also runs by itself."""
