"""What is measured: Penstock's sites, their clients, rivals on one host, and the machine itself."""
