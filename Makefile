# Each goal does all its own set-up: on a fresh Debian or Ubuntu, `make demo` is all it takes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build static test demo fix clean

help: ## Shows this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

build: ## Builds target/release/penstock
	@scripts/setup.sh build
	@. scripts/env.sh; cargo build --release --locked --package penstock

static: ## Builds a penstock that needs no C library of its host, for copies over ssh
	@scripts/setup.sh build
	@. scripts/env.sh; host=$$(rustc -vV | sed -n 's/^host: //p'); \
		RUSTFLAGS='-C target-feature=+crt-static' CARGO_PROFILE_RELEASE_STRIP=symbols \
		cargo build --release --locked --package penstock --target "$$host" && \
		echo "target/$$host/release/penstock"

test: ## Runs every check and test
	@scripts/setup.sh test
	@. scripts/env.sh; cargo xtask verify

demo: ## Moves a data set between two sites on this machine, verified by b3sum
	@scripts/setup.sh demo
	@. scripts/env.sh; cargo build --release --locked --package penstock
	@scripts/demo.sh

fix: ## Formats, and applies what clippy suggests
	@scripts/setup.sh build
	@. scripts/env.sh; cargo xtask fix

clean: ## Removes what was built
	@. scripts/env.sh; cargo clean
