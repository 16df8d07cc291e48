"""What benchmarks are made of: processes, control groups, memory, trees, arguments, facts."""
