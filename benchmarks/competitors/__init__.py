"""Methods that no release uses, as the benchmarks compare the product with them, each tested and audited."""
